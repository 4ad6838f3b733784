/** The certain orders as layers: a document stands below everything that certainly precedes it. */
import { el, svg } from "../dom";
import type { Node } from "./answers";

const BOX = { width: 150, height: 26, gap: 10, row: 10, layer: 30 };
const LETTERS = 20;

interface At {
  x: number;
  y: number;
}

/** The picture, and the layers as a list behind it. */
export function layered(nodes: Node[], documents: number, width: number): HTMLElement {
  const layers = grouped(nodes);
  const { places, height } = placed(layers, nodes.length, width);
  const lines = nodes.flatMap((node, i) => node.after.map((before) => edge(places[before], places[i])));
  const boxes = nodes.map((node, i) => box(node.id, places[i]));
  const which = nodes.length < documents ? `the best ${nodes.length} of ${documents} documents` : `${documents} documents`;
  const label = `Certain orders of ${which} in ${layers.length} layers.`;
  const items = layers.map((layer) => el("li", {}, layer.map((i) => nodes[i]?.id ?? "").join(", ")));
  return el(
    "figure",
    { class: "graph" },
    el("figcaption", {}, `Certain orders, as layers: ${which}`),
    el("p", { class: "small muted" }, "A line leads from a document to one that certainly stands below it. Documents without a way between them may stand either way."),
    svg("svg", { role: "img", "aria-label": label, viewBox: `0 0 ${width} ${height}`, width, height }, ...lines, ...boxes),
    el("details", {}, el("summary", {}, "As a list"), el("ol", { class: "small" }, ...items)),
  );
}

function grouped(nodes: Node[]): number[][] {
  const layers: number[][] = [];
  nodes.forEach((node, i) => (layers[node.layer] ??= []).push(i));
  return layers;
}

/** Where each box is; a layer too wide for the page takes several rows. */
function placed(layers: number[][], n: number, width: number): { places: At[]; height: number } {
  const across = Math.max(1, Math.floor((width + BOX.gap) / (BOX.width + BOX.gap)));
  const places: At[] = Array.from({ length: n }, () => ({ x: 0, y: 0 }));
  let y = 1;
  for (const layer of layers) {
    for (let first = 0; first < layer.length; first += across) {
      const row = layer.slice(first, first + across);
      const left = (width - row.length * BOX.width - (row.length - 1) * BOX.gap) / 2;
      row.forEach((node, i) => (places[node] = { x: left + i * (BOX.width + BOX.gap), y }));
      y += BOX.height + BOX.row;
    }
    y += BOX.layer - BOX.row;
  }
  return { places, height: y - BOX.layer + 1 };
}

function edge(from: At | undefined, to: At | undefined): SVGElement {
  const start = { x: (from?.x ?? 0) + BOX.width / 2, y: (from?.y ?? 0) + BOX.height };
  const end = { x: (to?.x ?? 0) + BOX.width / 2, y: to?.y ?? 0 };
  const bend = (start.y + end.y) / 2;
  return svg("path", { class: "edge", d: `M${start.x},${start.y} C${start.x},${bend} ${end.x},${bend} ${end.x},${end.y}` });
}

function box(id: string, at: At | undefined): SVGElement {
  const { x, y } = at ?? { x: 0, y: 0 };
  const text = id.length > LETTERS ? `…${id.slice(1 - LETTERS)}` : id; // names that begin alike differ at their ends
  return svg(
    "g",
    {},
    svg("title", {}, id),
    svg("rect", { class: "box", x, y, width: BOX.width, height: BOX.height, rx: 6 }),
    svg("text", { class: "id", x: x + BOX.width / 2, y: y + BOX.height / 2 + 4, "text-anchor": "middle" }, text),
  );
}
