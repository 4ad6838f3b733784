/** Elements from values. Text only ever becomes text nodes: nothing that was sent to the service is parsed as HTML. */

export type Child = Node | string | number | null | undefined | false;
type Value = string | number | boolean | null | undefined;
export type Attributes = Record<string, Value>;

const SVG = "http://www.w3.org/2000/svg";

/** An HTML element with attributes and children; an attribute that is false, null or undefined is left out. */
export function el<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  return dressed(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  return dressed(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], attributes, children);
}

/** Put these children in place of what the element holds. */
export function fill(parent: Element, ...children: Child[]): void {
  parent.replaceChildren(...children.filter(isShown).map(asNode));
}

/** Change the text of an element only where it differs, so that screen readers are not told the same again. */
export function say(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

function dressed<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style" || name.startsWith("on")) throw new Error(`${name} is not set from text`);
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  fill(element, ...children);
  return element;
}

function isShown(child: Child): child is Node | string | number {
  return child !== null && child !== undefined && child !== false;
}

function asNode(child: Node | string | number): Node {
  return child instanceof Node ? child : document.createTextNode(String(child));
}
