/** Axes: round steps, and places on the paper. */

/** Round numbers from at most `bottom` to at least `top`, about `n` of them. */
export function steps(top: number, bottom = 0, n = 4): number[] {
  if (!(top > bottom) || !Number.isFinite(top - bottom)) return [Math.min(0, bottom), bottom < 0 ? 0 : 1];
  const rough = (top - bottom) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = ([1, 2, 2.5, 5, 10].find((each) => each * power >= rough * 0.999) ?? 10) * power;
  const first = Math.floor(bottom / step + 1e-9);
  const count = Math.ceil(top / step - 1e-9) - first;
  return Array.from({ length: count + 1 }, (_, i) => (first + i) * step);
}

/** A map from [from, to] to [start, end]. */
export function linear(from: number, to: number, start: number, end: number): (value: number) => number {
  const slope = to === from ? 0 : (end - start) / (to - from);
  return (value) => start + (value - from) * slope;
}
