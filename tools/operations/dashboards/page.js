"use strict";
// Times are shown as the reader's clock has them: plotly takes a date without a zone as it stands.
function local(milliseconds) {
  const offset = new Date(milliseconds).getTimezoneOffset() * 60000;
  return new Date(milliseconds - offset).toISOString().slice(0, -1);
}

function theme(layout) {
  const style = getComputedStyle(document.documentElement);
  const color = (name) => style.getPropertyValue(name).trim();
  const axis = { gridcolor: color("--line"), linecolor: color("--line") };
  return {
    ...layout,
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: color("--text"), family: "system-ui, sans-serif", size: 12 },
    hoverlabel: { bgcolor: color("--card"), bordercolor: color("--line"), font: { color: color("--text") }, namelength: -1 },
    xaxis: { ...layout.xaxis, ...axis },
    yaxis: { ...layout.yaxis, ...axis },
  };
}

async function draw() {
  let drawn = 0;
  for (const source of document.querySelectorAll("script[data-figure]")) {
    const figure = JSON.parse(source.textContent);
    for (const trace of figure.data) {
      if (trace.type === "scatter") trace.x = trace.x.map(local);
    }
    const range = figure.layout.xaxis && figure.layout.xaxis.type === "date" && document.body.dataset;
    if (range) figure.layout.xaxis.range = [local(Number(range.start)), local(Number(range.end))];
    await Plotly.react(source.previousElementSibling, figure.data, theme(figure.layout), {
      responsive: true, displaylogo: false, displayModeBar: false,
    });
    drawn += 1;
  }
  document.body.dataset.drawn = String(drawn);
}

draw();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
