
// The answer, and what the reader should know before trusting it.

const OUTCOMES = {
  found: ["found", "is-good"],
  missed_at_lowest: ["missed already at the lowest load", "is-bad"],
  met_at_highest: ["met at the highest load allowed: a lower bound", "is-neutral"],
  void: ["void: no valid measurement", "is-bad"],
  interrupted: ["interrupted", "is-neutral"],
};

function intervalText(interval, write) {
  if (!interval) return "";
  const sure = `${Number((interval.confidence * 100).toFixed(1))} % CI`;
  return interval.high === null || interval.high === undefined
    ? `${sure} from ${write(interval.low)}`
    : `${sure} ${write(interval.low)}–${write(interval.high)}`;
}

function card(field, value, label, text, small, below) {
  return h("div", { class: "card", "data-long": text.length > 12 }, h("span", {}, label),
    h("b", { "data-field": field, "data-value": value }, text, small ? h("small", {}, ` ${small}`) : null),
    below ? h("span", {}, below) : null);
}

function answerSection(data) {
  const { document: doc, facts, load_name } = data;
  const { answer } = doc;
  const cards = [];
  const value = (load) => (load ? Object.values(load)[0] : null);
  if (answer.load) {
    const name = doc.outcome === "met_at_highest" ? "max load, at least" : "max load under the SLO";
    cards.push(card("load", value(answer.load), name, level(value(answer.load)), load_name, intervalText(answer.interval, (v) => level(Math.round(v)))));
  }
  if (answer.safe_load) cards.push(card("safe_load", value(answer.safe_load), "safe load", level(value(answer.safe_load)), load_name, "the lower end of the interval"));
  if (answer.goodput) {
    const rate = answer.goodput.requests_per_second;
    cards.push(card("goodput", rate, "goodput there", significant(rate), "requests/s", intervalText(answer.goodput.interval, significant)));
  }
  if (answer.binding_objective) {
    const p = answer.binding_probability;
    const sure = p === null || p === undefined ? "" : `${Math.min(99, Math.round(p * 100))} % sure`;
    cards.push(card("binding_objective", answer.binding_objective, "binding objective", answer.binding_objective, "", sure));
  }
  const [words, mood] = OUTCOMES[doc.outcome] || [doc.outcome, "is-neutral"];
  const rest = facts.filter(([label]) => !["goodput there", "binding objective"].includes(label));
  return h("section", { id: "answer" },
    cards.length ? h("div", { class: "cards" }, cards) : null,
    h("p", {}, h("span", { class: `outcome ${mood}`, "data-field": "outcome", "data-value": doc.outcome }, words)),
    h("dl", {}, rest.map(([label, text]) => [h("dt", {}, label), h("dd", {}, text)])),
    data.remarks.map(([kind, text]) => h("div", { class: `remark ${kind}` }, h("b", {}, kind), text)),
    data.notes.map((text) => h("div", { class: "remark" }, h("b", {}, "page"), text)));
}
