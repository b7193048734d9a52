
// The turns of conversations: how soon each is answered, and how its prompt grows.

function turnLines(trial) {
  const { sessions } = trial;
  if (!sessions) return [];
  const line = (turns) => (turns.ttft
    ? `TTFT p50 ${seconds(turns.ttft.p50)}, p95 ${seconds(turns.ttft.p95)} (${count(turns.requests)}), ${count(turns.isl.toFixed(0))} tokens in`
    : `${count(turns.requests)} requests`);
  return [
    ["first turns", line(sessions.first)],
    ["later turns", sessions.later.requests ? line(sessions.later) : null],
    ["context", sessions.context_full ? `${count(sessions.context_full)} conversations ended because the next turn would not have fitted` : null],
  ];
}

/** TTFT by turn above, prompt length by turn below it. */
function turnCharts(trial) {
  const turns = trial.sessions ? trial.sessions.by_turn : [];
  if (turns.length < 2) return null;
  const last = turns[turns.length - 1].turn;
  const across = { kind: "linear", low: 0.5, high: last + 0.5, unit: "", name: "turn", wanted: Math.min(last, 12) };
  const drawn = (heading, unit, lines, key) => {
    const top = Math.max(...turns.flatMap((turn) => lines.map(([, name]) => turn[name] || 0))) * 1.1 || 1;
    const { svg, body, x, y } = plot({ x: across, y: { kind: "linear", low: 0, high: top, unit, name: heading } });
    const spots = [];
    for (const [kind, name, label] of lines) {
      const there = turns.filter((turn) => turn[name] !== null && turn[name] !== undefined);
      body.append(s("path", { class: `line ${kind}`, d: path(there.map((turn) => [x(turn.turn), y(turn[name])])) }));
      for (const turn of there) {
        const place = { x: x(turn.turn), y: y(turn[name]) };
        body.append(s("circle", { class: `mark dot-${kind}`, cx: place.x, cy: place.y, r: 3.6 }));
        spots.push({ ...place, text: `turn ${turn.turn}: ${label} ${unit === "seconds" ? seconds(turn[name]) : count(turn[name].toFixed(0))}\n${count(turn.requests)} requests, ${count(turn.isl.toFixed(0))} tokens in` });
      }
    }
    hover(svg, spots);
    return chart(heading, svg, key);
  };
  return h("div", { class: "grid", "data-field": "turns" },
    drawn("TTFT by turn", "seconds", [["first", "ttft_p95", "TTFT p95"], ["second", "ttft_p50", "TTFT p50"]], legend([sampleLine("first"), "p95"], [sampleLine("second"), "p50"])),
    drawn("Prompt by turn, tokens", "", [["first", "isl", "prompt"]], null));
}
