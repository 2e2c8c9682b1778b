"use strict";
// Draws every chart of the page from the specification that lies beside it.
for (const holder of document.querySelectorAll("script.specification")) {
  const box = holder.previousElementSibling;
  const options = {
    renderer: "svg",
    tooltip: { disableDefaultStyle: true },
    actions: { export: true, source: false, compiled: false, editor: false },
    downloadFileName: box.id,
  };
  vegaEmbed(box, JSON.parse(holder.textContent), options).then(
    () => { box.dataset.drawn = "yes"; },
    (error) => { box.textContent = "This chart could not be drawn here: " + error; },
  );
}
