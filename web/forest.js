// The forest of prompts, live. A node is a pale block as wide as its readers, which is what would be computed if each
// answer stood alone, with a stem in it, which is what is computed: the trunk once, every branch once.
import {count, make, number} from './dom.js';

const svgSpace = 'http://www.w3.org/2000/svg';
const draw = (tag, attributes = {}) => {
  const element = document.createElementNS(svgSpace, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  return element;
};
// Pixels: between levels, heights of blocks, width of a leaf, height of all.
const gap = 22, least = 20, most = 92, narrowest = 3, room = 330;

export class ForestView {
  nodes = new Map();  // id → node; what has left the engine's forest stays in the picture

  // words: what the server's labels mean here.
  constructor(place, documents, words = {}) {
    Object.assign(this, {place, documents, words});
    this.figure = place.querySelector('figure');
    this.svg = draw('svg', {role: 'img', 'aria-label': 'Nothing is computed so far'});
    this.edges = draw('g', {class: 'edges'});
    this.blocks = draw('g');
    this.svg.append(this.edges, this.blocks);
    const key = (name, text) => make('span', '', make('i', name), text);
    this.figure.replaceChildren(this.svg, make('figcaption', 'faint',
      key('kept', 'computed once'), key('ghost', 'never computed again: saved'), key('computing', 'being computed'), key('tail', 'answers')));
    this.watch = new ResizeObserver(([entry]) => {  // asking for the width would lay out the whole page
      this.width = entry.contentRect.width;
      this.draw();
    });
    this.watch.observe(this.figure);
  }

  close() { this.watch.disconnect(); }

  // One of the server's pictures, which has only what runs at the moment. Several may be taken before one is drawn.
  take(picture) {
    const now = new Set();
    let last;  // not an answer: the end of a prompt, when an answer follows
    for (const node of picture.nodes) {
      now.add(node.id);
      const known = this.nodes.get(node.id);
      const question = node.label === 'answer' && last?.parent === node.parent ? last.id : known?.question;
      this.nodes.set(node.id, {...node, question, readers: Math.max(node.readers, known?.readers ?? 1), tokens: Math.max(node.tokens, known?.tokens ?? 0)});
      if (node.label !== 'answer') last = node;
    }
    for (const [id, node] of this.nodes) if (!now.has(id) && node.state === 'computing') node.state = 'kept';
    this.saved = picture.saved_tokens;
    this.computed = picture.computed_tokens;
  }

  // Questions that began and ended between two pictures: their rows say what they had. answers: {document, row}.
  complete(answers) {
    const all = [...this.nodes.values()], of = Map.groupBy(answers.filter(({row}) => row && !row.error && !(row.parts > 1)), answer => answer.document);
    const tokensTo = node => node ? node.tokens + tokensTo(this.nodes.get(node.parent)) : 0;
    const last = (label, document) => all.findLast(node => node.label === label && (node.document ?? null) === document);
    const trunk = last('instruction', null), typical = all.find(node => node.label === 'question')?.tokens ?? 1;
    const add = (id, parent, label, document, tokens, readers) =>
      this.nodes.set(id, {id, parent, label, document, readers, tokens: Math.max(1, tokens || 1), state: label === 'answer' ? 'tail' : 'kept'});
    if (!trunk) return;
    for (const [document, rows] of of) {
      let above = last('document', document);
      if (!above) {
        const tokens = rows[0].row.prompt_tokens - tokensTo(trunk) - typical;
        above = add(`document ${document}`, trunk.id, 'document', document, tokens, rows.length).get(`document ${document}`);
      }
      const base = tokensTo(above), drawn = all.filter(node => node.label === 'question' && node.document === document &&
        this.nodes.get(node.parent)?.label !== 'question');
      const lengths = drawn.map(node => node.tokens), missing = rows.filter(({row}) => {
        const at = lengths.indexOf(row.prompt_tokens - base);
        return at < 0 || !lengths.splice(at, 1);
      });
      missing.slice(0, Math.max(0, rows.length - drawn.length)).forEach(({row}, k) => {
        const id = `question ${document} ${k}`;
        add(id, above.id, 'question', document, row.prompt_tokens - base, 1);
        add(`${id} answer`, id, 'answer', document, row.tokens, 1);
      });
    }
    for (const node of this.nodes.values()) if (node.state === 'computing') node.state = 'kept';
  }

  // The tree as it is drawn: a segment that is stored in several pieces, one below the other, is one.
  #tree() {
    const roots = [], nodes = new Map([...this.nodes].map(([id, node]) => [id, {...node, children: []}]));
    for (const node of nodes.values()) (nodes.get(node.parent)?.children ?? roots).push(node);
    // An answer that begins with a copy of its question stands beside it: it is drawn below, without the copy.
    for (const node of nodes.values()) {
      const question = nodes.get(node.question);
      if (!question) continue;
      const beside = nodes.get(node.parent)?.children ?? roots;
      beside.splice(beside.indexOf(node), 1);
      question.children.push(node);
      question.label = 'question';  // of the experts' prior: it has no document above
      node.tokens = Math.max(1, node.tokens - question.tokens);
    }
    const join = node => {
      while (node.children.length === 1 && node.children[0].label === node.label && node.label !== 'answer') {
        const [below] = node.children;
        node.tokens += below.tokens;
        if (below.state === 'computing') node.state = below.state;
        node.children = below.children;
      }
      for (const child of node.children) { child.above = node; join(child); }
    };
    roots.forEach(join);
    return roots;
  }

  // Levels from the top. A node is as wide as its readers, those that were seen at once or one after another.
  #layout(width) {
    const roots = this.#tree(), levels = [];
    const measure = (node, depth) => {
      const level = levels[depth] ??= {tokens: 1, nodes: []};
      level.tokens = Math.max(level.tokens, node.tokens);
      level.nodes.push(node);
      node.depth = depth;
      const below = node.children.reduce((sum, child) => sum + measure(child, depth + 1), 0);
      node.readers = Math.max(1, below, node.readers);
      return node.readers;
    };
    const all = roots.reduce((sum, root) => sum + measure(root, 0), 0);
    let top = 0;
    const tallest = Math.max(...levels.map(level => level.tokens));
    const tall = level => Math.max(least, most * Math.sqrt(level.tokens / tallest));
    const shrink = Math.min(1, room / levels.reduce((sum, level) => sum + tall(level) + gap, 0));
    for (const level of levels) {
      level.top = top;
      level.height = shrink * tall(level);
      top += level.height + shrink * gap;
    }
    const unit = width / Math.max(1, all);
    const settle = (node, x) => {
      const level = levels[node.depth];
      node.x = x;
      node.width = node.readers * unit;
      node.top = level.top;
      node.height = Math.max(6, level.height * Math.sqrt(node.tokens / level.tokens));
      for (const child of node.children) { settle(child, x); x += child.readers * unit; }
    };
    let x = 0;
    for (const root of roots) { settle(root, x); x += root.readers * unit; }
    return {levels, unit, height: Math.max(0, top - shrink * gap)};
  }

  draw() {
    this.place.hidden = !this.nodes.size;
    const {width} = this;
    if (!width || !this.nodes.size) return;
    const {levels, unit, height} = this.#layout(width);
    this.svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.svg.setAttribute('width', width);
    this.svg.setAttribute('height', height);
    this.svg.setAttribute('aria-label', this.inWords());
    const blocks = [], edges = [];
    const stemWidth = Math.max(2, Math.min(14, unit - 2));
    for (const {nodes} of levels) {
      // Leaves too narrow to be seen are one comb of lines, as many as there is room for.
      const skip = Math.max(1, Math.ceil(narrowest / unit));
      nodes.forEach((node, i) => {
        if (node.width < narrowest && i % skip) return;
        const middle = node.x + node.width / 2, group = draw('g', {class: `node ${node.state}`});
        const title = draw('title');
        title.textContent = this.#name(node) + `: ${count(node.tokens, 'token')}, ${count(node.readers, 'reader')}`;
        group.append(title);
        if (node.readers > 1) {
          group.append(draw('rect', {class: 'ghost', x: node.x + 1, y: node.top, width: Math.max(1, node.width - 2), height: node.height, rx: 4}));
        }
        group.append(draw('rect', {class: 'stem', x: middle - stemWidth / 2, y: node.top, width: stemWidth, height: node.height, rx: Math.min(3, stemWidth / 2)}));
        if (node.width > 76) group.append(...this.#labels(node, middle + stemWidth / 2 + 6, node.x + node.width - 6));
        blocks.push(group);
        const parent = node.above;
        if (parent) {
          const x = parent.x + parent.width / 2, y = parent.top + parent.height, half = (node.top + y) / 2;
          edges.push(draw('path', {d: `M${x} ${y}C${x} ${half} ${middle} ${half} ${middle} ${node.top}`}));
        }
      });
    }
    this.blocks.replaceChildren(...blocks);
    this.edges.replaceChildren(...edges);
  }

  #name(node) {
    const of = this.documents[node.document];
    return node.label === 'document' && of ? of.id : this.words[node.label] ?? node.label;
  }

  #labels(node, from, to) {
    const letters = Math.floor((to - from) / 7), times = node.readers > 1 ? ` × ${number(node.readers)}` : '';
    const long = count(node.tokens, 'token') + times, lines = [this.#name(node), long.length <= letters ? long : number(node.tokens) + times];
    if (letters < 5 || node.height < 15) return [];
    return lines.slice(0, node.height < 32 || lines[1].length > letters ? 1 : 2).map((text, i) => {
      const line = draw('text', {x: from, y: node.top + 14 + 15 * i, class: i ? 'few' : ''});
      line.textContent = text.length > letters ? text.slice(0, Math.max(1, letters - 1)) + '…' : text;
      return line;
    });
  }

  inWords() {
    const all = [...this.nodes.values()], shared = all.filter(node => node.readers > 1 && node.state !== 'tail');
    return `${count(all.length, 'part')} of prompts and answers, ${number(shared.length)} of them read by several answers. ` +
      `${count(this.computed, 'prompt token')} computed, ${number(this.saved)} saved.`;
  }
}
