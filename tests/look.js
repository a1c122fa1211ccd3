// What a page looks like to a script in it. Colours are those that were computed, over what lies behind them.
() => {
  const rgba = (text) => {
    const found = /rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)/.exec(text);
    return found ? [+found[1], +found[2], +found[3], found[4] === undefined ? 1 : +found[4]] : null;
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const sheet = matchMedia("(prefers-color-scheme: dark)").matches && CSS.supports("color-scheme", "dark")
    && getComputedStyle(document.documentElement).colorScheme.includes("dark") ? [18, 18, 18, 1] : [255, 255, 255, 1];
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement) {
      const style = getComputedStyle(each);
      const color = rgba(style.backgroundColor);
      if (color && color[3] > 0) layers.push(color);
      if (color && color[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), sheet);
  };
  const light = (color) => {
    const [r, g, b] = color.map((value) => value / 255)
      .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [bright, dim] = [light(one), light(other)].sort((a, b) => b - a);
    return (bright + 0.05) / (dim + 0.05);
  };
  const seen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true })
    && element.getBoundingClientRect().width > 1;
  const named = (element) => `${element.tagName.toLowerCase()}.${element.getAttribute("class") ?? ""}: `
    + element.textContent.trim().slice(0, 40);
  const pale = [], wide = [], overlapping = [];
  let texts = 0;
  for (const element of document.body.querySelectorAll("*")) {
    if (/^(SCRIPT|STYLE|NOSCRIPT|TITLE|OPTION)$/i.test(element.tagName)) continue;
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || !seen(element)) continue;
    texts += 1;
    const style = getComputedStyle(element);
    const drawn = element instanceof SVGElement;
    let below = behind(drawn ? element.ownerSVGElement.parentElement : element);
    if (drawn) {
      const own = rgba(getComputedStyle(element.ownerSVGElement).backgroundColor);
      if (own) below = over(own, below);
      const cell = element.closest(".cell")?.querySelector("rect");
      const fill = cell && rgba(getComputedStyle(cell).fill);
      if (fill) below = over(fill, below);
      // Labels on bars have a box of their own behind them.
      const box = element.previousElementSibling;
      const boxed = !cell && box && box.tagName === "path" && rgba(getComputedStyle(box).fill);
      if (boxed && box.getBoundingClientRect().height < 25) below = over(boxed, below);
    }
    const color = rgba(drawn ? style.fill : style.color);
    const size = parseFloat(style.fontSize);
    // What cannot be pressed may be pale.
    if (element.closest(".disabled, [disabled]")) continue;
    const large = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
    const found = color ? contrast(over(color, below), below) : 0;
    if (found < (large ? 3 : 4.5)) pale.push(`${found.toFixed(2)} ${named(element)}`);
  }
  const scrolls = (element) => {
    for (let each = element.parentElement; each && each !== document.body; each = each.parentElement) {
      if (/auto|scroll|hidden/.test(getComputedStyle(each).overflowX)) return true;
    }
    return false;
  };
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width > 1 && (box.right > innerWidth + 1 || box.left < -1) && seen(element) && !scrolls(element)
      && !(element instanceof SVGElement && element.ownerSVGElement)) wide.push(named(element));
  }
  // Rows that are high for something that is scrolled away.
  const tall = [];
  const lines = (cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect().height;
  };
  for (const row of all("tr").filter((each) => seen(each) && getComputedStyle(each).display === "table-row")) {
    const height = row.getBoundingClientRect().height;
    const end = (row.closest(".wide") ?? row.closest("table")).getBoundingClientRect().right;
    const shown = [...row.cells].filter((cell) => cell.getBoundingClientRect().left < end - 40);
    // Four lines, half of them for nothing that is seen.
    if (height > 90 && Math.max(...shown.map(lines)) < height / 2) tall.push(`${Math.round(height)} px ${named(row)}`);
  }
  // Lists of numbers and of words that take a screen.
  for (const item of all("dl.keys div").filter(seen)) {
    const height = item.getBoundingClientRect().height;
    // What is as wide as its column is as high as it must be.
    if (height > 150 && item.querySelector("dd").offsetWidth < item.offsetWidth * 0.9) {
      tall.push(`${Math.round(height)} px ${named(item)}`);
    }
  }
  const figures = {};
  for (const place of document.querySelectorAll("[data-chart], svg.drive")) {
    const name = place.dataset.chart ?? "drive";
    const shapes = [...place.querySelectorAll("path, rect, circle, polyline")].filter((each) => {
      const box = each.getBoundingClientRect();
      return box.width + box.height > 1;
    });
    figures[name] = shapes.length;
    const labels = [...place.querySelectorAll("text")].filter((each) => each.textContent.trim() && seen(each));
    const boxes = labels.map((each) => each.getBoundingClientRect());
    for (let one = 0; one < boxes.length; one += 1) {
      for (let other = one + 1; other < boxes.length; other += 1) {
        const [a, b] = [boxes[one], boxes[other]];
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        // Boxes of text are a little higher than its letters.
        if (across > 2 && down > 4) {
          overlapping.push(`${name}: ${labels[one].textContent} / ${labels[other].textContent}`);
        }
      }
    }
  }
  // What a script writes where it had no number.
  const strange = all("svg text").map((each) => each.textContent)
    .filter((text) => /NaN|undefined|null|\[object/.test(text));
  const pictures = [...document.images].filter(seen);
  return {
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    width: document.documentElement.scrollWidth, window: innerWidth, height: document.documentElement.scrollHeight,
    texts, pale, wide, tall, overlapping, strange, figures, pictures: pictures.length,
    broken: pictures.filter((each) => each.naturalWidth === 0).map((each) => each.src.slice(0, 80)),
    sheet: behind(document.body),
  };
}
