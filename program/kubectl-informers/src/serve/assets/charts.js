// Small line charts on a canvas. They know series of numbers, one per second, and nothing of what they mean.

const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** The colour of the series at this place; there are eight, then they repeat. */
export const seriesColour = (at) => colourOf(`--series-${(at % 8) + 1}`);

/** A canvas of the size it has on the page, in real pixels, emptied. */
function prepare(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

/** A number that reads well just above `value`: 1, 2, 5, 10, 20 … */
function ceiling(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value);
}

/** Draws `lines` (`{ values, colour }`, the newest value last) over a window of `seconds`. */
export function draw(canvas, lines, seconds, unit = "") {
  const { pen, width, height } = prepare(canvas);
  if (width < 40 || height < 30) return;
  const box = { left: 34, right: width - 4, top: 8, bottom: height - 18 };
  const most = Math.max(0, ...lines.flatMap((line) => line.values.filter((value) => value !== null)));
  const top = ceiling(most);
  const x = (at, length) => box.right - ((length - 1 - at) / (seconds - 1)) * (box.right - box.left);
  const y = (value) => box.bottom - (value / top) * (box.bottom - box.top);

  pen.font = `10.5px ${colourOf("--mono")}`;
  pen.fillStyle = colourOf("--faint");
  pen.strokeStyle = colourOf("--line");
  pen.lineWidth = 1;
  pen.textBaseline = "middle";
  for (const part of [0, 0.5, 1]) {
    const value = top * part;
    const level = Math.round(y(value)) + 0.5;
    pen.beginPath();
    pen.moveTo(box.left, level);
    pen.lineTo(box.right, level);
    pen.stroke();
    pen.textAlign = "right";
    pen.fillText(`${Number(value.toFixed(1))}${unit}`, box.left - 6, level);
  }
  pen.textBaseline = "alphabetic";
  const minutes = Math.floor(seconds / 60);
  for (let minute = 0; minute <= minutes; minute += 1) {
    const at = box.right - ((minute * 60) / (seconds - 1)) * (box.right - box.left);
    pen.textAlign = minute === 0 ? "right" : minute === minutes ? "left" : "center";
    pen.fillText(minute === 0 ? "now" : `${minute}m`, Math.max(at, box.left), height - 4);
  }

  pen.lineJoin = "round";
  for (const line of lines) {
    const values = line.values.slice(-seconds);
    pen.strokeStyle = line.colour;
    pen.lineWidth = 1.6;
    pen.beginPath();
    let drawing = false;
    values.forEach((value, at) => {
      if (value === null) {
        drawing = false;
        return;
      }
      if (drawing) pen.lineTo(x(at, values.length), y(value));
      else pen.moveTo(x(at, values.length), y(value));
      drawing = true;
    });
    pen.stroke();
    if (lines.length === 1) fill(pen, values, x, y, box, line.colour);
  }
}

function fill(pen, values, x, y, box, colour) {
  pen.globalAlpha = 0.1;
  pen.fillStyle = colour;
  pen.lineTo(x(values.length - 1, values.length), box.bottom);
  pen.lineTo(x(0, values.length), box.bottom);
  pen.fill();
  pen.globalAlpha = 1;
}

/** A sparkline: bars without scale or axis. */
export function spark(canvas, values, colour) {
  const { pen, width, height } = prepare(canvas);
  const most = Math.max(1, ...values);
  const step = 3;
  const count = Math.floor(width / step);
  pen.fillStyle = colour;
  values.slice(-count).forEach((value, at, shown) => {
    const tall = value === 0 ? 0 : Math.max(1.5, (value / most) * (height - 2));
    pen.globalAlpha = value === 0 ? 0.35 : 0.85;
    pen.fillRect(width - (shown.length - at) * step, height - Math.max(tall, 1), step - 1, Math.max(tall, 1));
  });
  pen.globalAlpha = 1;
}

/** Averages of `width` values each: rates of single seconds are restless. */
export function smooth(values, width) {
  return values.map((value, at) => {
    if (value === null) return null;
    const some = values.slice(Math.max(0, at - width + 1), at + 1).filter((one) => one !== null);
    return some.reduce((sum, one) => sum + one, 0) / some.length;
  });
}
