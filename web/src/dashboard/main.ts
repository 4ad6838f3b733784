import "../page.css";
import { el } from "../dom";
import { frame } from "../frame";

const { main } = frame("perturank", [["Dashboard", "/"], ["API", "/docs"]]);
main.append(el("p", { class: "card" }, "The service answers at /v1; its numbers are at /metrics."));
