
// A page that is served while the run goes on asks for news.

const PERIOD = 2000;

function liveText(data) {
  const live = data.live;
  if (!live) return "";
  if (live.over) return data.ended ? "the run has ended" : "the run was cut before it ended; plimsoll resume goes on with it";
  const trial = live.trial;
  if (!trial) return "live: the run goes on";
  const load = `${level(Object.values(trial.load)[0])} ${data.load_name}`;
  const counted = trial.samples ? `${count(trial.samples)} of ${count(trial.wanted)} requests` : "settling";
  const figures = trial.figures.map((value, k) => (value === null ? null : `${data.objectives[k].name} ${figure(data.objectives[k].unit, value)} (${data.objectives[k].limit})`)).filter(Boolean);
  return [`live: trial at ${load}, ${trial.kind}`, `${counted}, ${seconds(trial.elapsed)}`, ...figures].join("  ·  ");
}

/** Asks every two seconds; `draw` is called with data that have changed. */
function follow(data, draw) {
  const place = document.getElementById("live");
  place.hidden = false;
  place.textContent = liveText(data);
  let missed = 0;
  const ask = async () => {
    try {
      const answer = await fetch(`/data.json?revision=${data.revision}`, { cache: "no-store" });
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      const news = await answer.json();
      missed = 0;
      if (news.page) {
        data = news.page;
        draw(data);
      }
      data.live = news.live;
      place.textContent = liveText(data);
      if (data.live.over && !news.page) return;
    } catch {
      missed += 1;
      if (data.ended) place.textContent = "the run has ended";
      else if (missed > 2) place.textContent = "the program that measures does not answer any more; this is the last state";
      if (data.ended || missed > 30) return;
    }
    setTimeout(ask, PERIOD);
  };
  setTimeout(ask, PERIOD);
}
