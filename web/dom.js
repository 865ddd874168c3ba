// Small things that every part of the page uses. Text from outside goes into text nodes, never into markup.

export const $ = id => document.getElementById(id);

export function make(tag, name, ...children) {
  const element = document.createElement(tag);
  if (name) element.className = name;
  element.append(...children);
  return element;
}

export function button(text, name, onclick) {
  const element = make('button', name, text);
  element.type = 'button';
  element.onclick = onclick;
  return element;
}

const grouped = new Intl.NumberFormat('en', {maximumFractionDigits: 0});
export const number = n => grouped.format(n);
export const count = (n, noun) => `${number(n)} ${noun}${n === 1 ? '' : 's'}`;

// Hues of neighbours are far apart.
export const hueOf = i => Math.round((150 + 137.5 * i) % 360);
export function tint(element, hue) {
  element.style.setProperty('--hue', hue);
  return element;
}

// How many characters a text has, as the server counts them: code points, not UTF-16 units.
export function characters(text) {
  let pairs = 0;
  for (let i = 0; i + 1 < text.length; ++i) {
    if ((text.charCodeAt(i) & 0xfc00) === 0xd800 && (text.charCodeAt(i + 1) & 0xfc00) === 0xdc00) ++pairs, ++i;
  }
  return text.length - pairs;
}

// Things to do that are done together before the next picture, for so many milliseconds that the page still answers; a
// hidden page is brought up to date less often. take(items) does them, show() comes once a picture.
export class Frames {
  #waiting = [];
  #due = 0;
  #drained = null;
  static #atOnce = 100;
  static #milliseconds = 8;
  static #hiddenMilliseconds = 200;

  constructor(take, show) {
    Object.assign(this, {take, show});
    this.seen = () => {  // a picture that was asked for may never come
      this.#due = 0;
      if (this.#waiting.length) this.#some();
    };
    document.addEventListener('visibilitychange', this.seen);
  }

  add(item) {
    this.#waiting.push(item);
    this.#schedule();
  }

  // Resolves when all that is left has been done.
  async finish() {
    if (this.#waiting.length) await new Promise(resolve => { this.#drained = resolve; this.#schedule(); });
    document.removeEventListener('visibilitychange', this.seen);
  }

  #schedule() {
    if (!this.#due) this.#due = document.hidden ? setTimeout(() => this.#some(), 250) : requestAnimationFrame(() => this.#some());
  }

  #some() {
    this.#due = 0;
    const end = performance.now() + (document.hidden ? Frames.#hiddenMilliseconds : Frames.#milliseconds);
    try {
      do this.take(this.#waiting.splice(0, Frames.#atOnce)); while (this.#waiting.length && performance.now() < end);
      this.show();
    } finally {
      if (this.#waiting.length) this.#schedule();
      else this.#drained?.();
    }
  }
}

// The text with marks in it. spans: [{begin, end, name, hue}] in characters (not UTF-16 units); they may overlap.
export function markedText(text, spans) {
  const characters = /[\ud800-\udfff]/.test(text) ? Array.from(text) : text;
  const piece = (begin, end) => {
    const part = characters.slice(begin, end);
    return typeof part === 'string' ? part : part.join('');
  };
  const inside = spans.filter(s => 0 <= s.begin && s.begin < s.end && s.end <= characters.length);
  const cuts = [...new Set([0, characters.length, ...inside.flatMap(s => [s.begin, s.end])])].sort((a, b) => a - b);
  const nodes = [];
  for (let i = 0; i + 1 < cuts.length; ++i) {
    const here = inside.filter(s => s.begin <= cuts[i] && cuts[i + 1] <= s.end);
    const part = piece(cuts[i], cuts[i + 1]);
    if (!here.length) { nodes.push(part); continue; }
    const mark = tint(make('mark', '', part), here[0].hue ?? hueOf(0));
    mark.names = here.map(s => s.name);
    mark.dataset.names = mark.title = mark.names.join(', ');
    nodes.push(mark);
  }
  return nodes;
}

export function announce(text) {
  $('announce').textContent = text;
}

// What a thrown thing says to a person.
export const inWords = error => error?.message || String(error);
