/** A mixing matrix as a heat map whose values can be read by pointer or by keys. */

import { make, number } from "./dom.js";

const SIDE = 480;

/** Blue for negative, orange for positive values, the page's ground for none. */
function shade(share, isDark) {
  const [r, g, b] = share < 0 ? [0, 114, 190] : [214, 94, 0];
  const strength = Math.sqrt(Math.abs(share));
  const ground = isDark ? 24 : 255;
  return [r, g, b].map((part) => Math.round(ground + (part - ground) * strength));
}

/** The picture of `found` (values, step, entity_dim), which is redrawn when colours change. */
export function heatMap(found, label, signal) {
  const { values, step } = found;
  const size = values.length;
  const largest = values.flat().reduce((most, value) => Math.max(most, Math.abs(value)), 0) || 1;
  const canvas = make("canvas", { width: size, height: size });
  const cursor = make("span", { class: "cell", hidden: true });
  const said = make("output", { class: "said", id: "cell-value" }, "Point at a cell, or choose the picture and use the arrow keys.");
  const paint = () => {
    const isDark = document.documentElement.dataset.theme === "dark";
    const context = canvas.getContext("2d");
    const image = context.createImageData(size, size);
    values.flat().forEach((value, n) => image.data.set([...shade(value / largest, isDark), 255], 4 * n));
    context.putImageData(image, 0, 0);
  };
  let at = [0, 0];
  const range = (n) => step === 1 ? `${n + 1}` : `${n * step + 1} to ${Math.min((n + 1) * step, found.entity_dim)}`;
  const point = (row, column) => {
    at = [Math.max(0, Math.min(size - 1, row)), Math.max(0, Math.min(size - 1, column))];
    cursor.hidden = false;
    cursor.style.top = `${(100 * at[0]) / size}%`;
    cursor.style.left = `${(100 * at[1]) / size}%`;
    cursor.style.width = cursor.style.height = `${100 / size}%`;
    said.textContent = `subject coordinate ${range(at[0])}, object coordinate ${range(at[1])}: ${number(values[at[0]][at[1]])}`;
  };
  const keys = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const box = make("div", {
    class: "heat", tabindex: "0", role: "application", "aria-roledescription": "heat map",
    "aria-label": `${label}, ${size} rows and ${size} columns; arrow keys read its values`,
    "aria-describedby": "cell-value",
    onfocus: () => point(...at),
    onkeydown: (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      point(at[0] + keys[event.key][0], at[1] + keys[event.key][1]);
    },
    onpointermove: (event) => {
      const place = canvas.getBoundingClientRect();
      point(Math.floor((size * (event.clientY - place.top)) / place.height),
        Math.floor((size * (event.clientX - place.left)) / place.width));
    },
  }, canvas, cursor);
  box.style.maxWidth = `${SIDE}px`;
  paint();
  document.addEventListener("themechange", paint, { signal });
  return [box, said];
}
