const list = document.getElementById("runs");
const answer = await fetch("api/runs");
for (const run of answer.ok ? await answer.json() : []) {
  const item = document.createElement("li");
  item.textContent = `${run.name}: ${run.model} of ${run.graph}`;
  list.append(item);
}
