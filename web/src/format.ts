/** Numbers as people read them. */

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

/** 1,234 or 12.3 or 0.123: three digits that count. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 0) return `−${number(-value)}`;
  const size = value;
  if (size >= 100 || Number.isInteger(value)) return whole.format(value);
  if (size >= 10) return value.toFixed(1);
  return size >= 1 ? value.toFixed(2) : value.toFixed(3);
}

/** +0.123 or −0.123: a difference. */
export function signed(value: number): string {
  return value > 0 ? `+${number(value)}` : number(value);
}

/** 1 click, 1,234 clicks; 2 searches. */
export function counted(n: number, what: string, many = "s"): string {
  return `${number(n)} ${what}${n === 1 ? "" : many}`;
}

/** 12.3 %. */
export function percent(share: number | null | undefined): string {
  if (share === null || share === undefined || !Number.isFinite(share)) return "–";
  const hundredths = 100 * share;
  if (Math.abs(hundredths - Math.round(hundredths)) < 1e-9) return `${Math.round(hundredths)} %`;
  return `${hundredths.toFixed(hundredths < 10 ? 2 : 1)} %`;
}

/** 850 µs, 12.3 ms, 4.2 s, 3 min, 5 h, 2 d. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 0.001) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${number(seconds * 1e3)} ms`;
  if (seconds < 120) return `${number(seconds)} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86_400)} d`;
}

/** 1.2 MB. */
export function bytes(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let size = n;
  let unit = 0;
  while (size >= 1000 && unit < units.length - 1) [size, unit] = [size / 1000, unit + 1];
  return `${unit === 0 ? size : number(size)} ${units[unit]}`;
}

/** 16 Nov, with the hour where it matters. */
export function day(milliseconds: number, hour = false): string {
  const form: Intl.DateTimeFormatOptions = { day: "numeric", month: "short" };
  const date = new Date(milliseconds).toLocaleDateString("en-GB", form);
  return hour ? `${date} ${clock(milliseconds)}` : date;
}

/** 14:05 or 14:05:31, in the reader's own time. */
export function clock(milliseconds: number, seconds = false): string {
  const form: Intl.DateTimeFormatOptions = { hour: "2-digit", minute: "2-digit", hour12: false };
  return new Date(milliseconds).toLocaleTimeString("en-GB", seconds ? { ...form, second: "2-digit" } : form);
}
