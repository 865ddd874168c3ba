// Answers of `rag` with their traces: tokens along x, documents along y, a mark where a document wrote a token.
import {button, hueOf, make, markedText, tint} from './dom.js';
import {Documents} from './documents.js';

const svgSpace = 'http://www.w3.org/2000/svg';
const cellWidth = 18, cellHeight = 26, letters = 14;
const draw = (tag, attributes, text) => {
  const element = document.createElementNS(svgSpace, tag);
  for (const name in attributes) element.setAttribute(name, attributes[name]);
  if (text !== undefined) element.textContent = text;
  return element;
};

export class ExpertsView {
  constructor(place, {documents, questions}) {
    this.documents = new Map(documents.map(document => [String(document.id), document]));
    this.found = new Array(questions.length);
    this.cards = questions.map(question => {
      const text = document.createTextNode(''), said = make('p', 'said answer waiting', text), trace = make('div');
      return Object.assign(make('article', 'card experts', make('h3', '', question), said, trace), {text, said, trace});
    });
    place.replaceChildren(...this.cards);
  }

  get total() { return this.cards.length; }
  rows() { return this.found.filter(Boolean); }
  stop() {
    for (const {said} of this.cards) {
      said.classList.replace('waiting', 'never');
      said.classList.replace('writing', 'stopped');
    }
  }

  token({question, text}) {
    const card = this.cards[question];
    if (!card || this.found[question]) return;
    if (card.said.classList.replace('waiting', 'writing')) text = text.trimStart();
    card.text.appendData(text);
  }

  answer({question, row}) {
    const card = this.cards[question];
    if (!card || this.found[question]) return 0;
    this.found[question] = row;
    card.said.className = 'said answer';
    if (row.error || row.answer === null) {
      card.said.classList.add(row.error ? 'bad' : 'null');
      card.said.textContent = row.error ? row.error.message : row.reason ? `${row.reason[0].toUpperCase()}${row.reason.slice(1)}.` : 'The text does not say.';
    }
    const documents = row.trace?.documents ?? [], tokens = row.trace?.tokens ?? [];
    const places = new Map(documents.map((document, i) => [String(document.id), i]));
    const wrote = tokens.map(token => places.get(String(token.document)) ?? -1);
    if (!row.error && row.answer !== null) this.#colour(card, row, tokens, wrote);
    if (documents.length && tokens.length) card.trace.replaceChildren(this.#draw(documents, tokens, wrote), this.#citations(row));
    else card.trace.replaceChildren(this.#citations(row));
    if (row.alternatives?.length) card.trace.append(this.#alternatives(row));
    return 1;
  }

  // Neighbouring tokens of one document are one piece.
  #colour(card, row, tokens, wrote) {
    const pieces = [];
    for (let i = 0; i < tokens.length;) {
      const by = wrote[i];
      let text = '';
      for (; i < tokens.length && wrote[i] === by; ++i) text += tokens[i].text;
      if (!pieces.length) text = text.trimStart();
      if (text) pieces.push(by < 0 ? text : tint(make('span', 'by', text), hueOf(by)));
    }
    card.said.replaceChildren(...(pieces.length ? pieces : [row.answer]));
  }

  #draw(documents, tokens, wrote) {
    const longest = Math.max(1, ...tokens.map(token => Math.min(letters, token.text.length))), header = 22 + Math.ceil(6.4 * longest);
    const width = tokens.length * cellWidth + 60, height = header + documents.length * cellHeight + 6;
    const counts = documents.map((_, i) => wrote.filter(by => by === i).length);
    const svg = draw('svg', {width, height, viewBox: `0 0 ${width} ${height}`, role: 'img',
      'aria-label': `${tokens.length} tokens: ` + documents.map((d, i) => [counts[i], d.id]).filter(([n]) => n).map(([n, id]) => `${n} by ${id}`).join(', ')});
    documents.forEach((_, i) => {
      const y = header + (i + .5) * cellHeight;
      svg.append(draw('line', {x1: 0, x2: tokens.length * cellWidth, y1: y, y2: y}));
    });
    tokens.forEach((token, column) => {
      const x = column * cellWidth, text = token.text.length > letters ? token.text.slice(0, letters - 1) + '…' : token.text || '∎';
      svg.append(draw('text', {transform: `translate(${x + 12},${header - 6}) rotate(-60)`}, text));
      if (wrote[column] < 0) return;
      const mark = draw('rect', {x: x + 1, y: header + wrote[column] * cellHeight + 3, width: cellWidth - 2, height: cellHeight - 6, rx: 3});
      mark.append(draw('title', {}, `${documents[wrote[column]].id}: ${token.text || 'end'}`));
      svg.append(tint(mark, hueOf(wrote[column])));
    });
    const names = make('ul', 'names', ...documents.map((document, i) => {
      const name = button(String(document.id), '', () => this.#read(document.id, []));
      name.disabled = !this.documents.has(String(document.id));  // a passage of the server's index
      const facts = [['r', document.relevance], ['β', document.beta]].filter(([, v]) => typeof v === 'number').map(([n, v]) => `${n} ${v.toFixed(2)}`);
      return make('li', counts[i] ? '' : 'silent', name, make('small', 'faint', facts.join('  ')));
    }));
    names.style.paddingTop = `${header}px`;
    const scroll = make('div', 'scroll', svg);
    scroll.tabIndex = 0;
    scroll.setAttribute('role', 'group');
    scroll.setAttribute('aria-label', 'Who wrote which token');
    return make('div', '', make('div', 'trace', names, scroll), this.#explained(documents, counts));
  }

  // What the letters beside the names mean, and the numbers as a table, which a narrow window has no other room for.
  #explained(documents, counts) {
    const shown = [['r', 'relevance'], ['β', 'beta']].filter(([, field]) => documents.some(document => typeof document[field] === 'number'));
    if (!shown.length) return '';
    const head = (text, scope) => Object.assign(make('th', '', text), {scope});
    const table = make('table', 'numbers', make('thead', '', make('tr', '', head('document', 'col'), head('tokens', 'col'), ...shown.map(([letter]) => head(letter, 'col')))),
      make('tbody', '', ...documents.map((document, i) => make('tr', '', head(String(document.id), 'row'), make('td', '', String(counts[i])),
        ...shown.map(([, field]) => make('td', '', typeof document[field] === 'number' ? document[field].toFixed(3) : '–'))))));
    table.setAttribute('aria-label', 'Tokens, relevance and contrast of each document');
    return make('details', 'explained', make('summary', '', shown.length > 1 ? 'What r and β mean' : `What ${shown[0][0]} means`),
      make('p', '', make('b', '', 'r'), ' is relevance: how well the document fits the question, from 0 (it has none of its words) to 1. If two documents are equally sure of an answer, the more relevant one gives it.'),
      make('p', '', make('b', '', 'β'), ' is contrast: how much the document changes what the model would say without reading anything, from 0 (not at all) to 1 (completely). The larger it is, the less counts what the model would have guessed anyway.'),
      table);
  }

  #citations(row) {
    const items = (row.citations ?? []).filter(c => c.begin !== undefined).map(citation => {
      const places = row.trace?.documents?.findIndex(d => String(d.id) === String(citation.document)) ?? -1;
      const open = button('', 'cite', () => this.#read(citation.document, [{begin: citation.begin, end: citation.end, name: 'cited', hue: hueOf(Math.max(0, places))}]));
      open.disabled = !this.documents.has(String(citation.document));
      open.append(tint(make('span', 'dot'), hueOf(Math.max(0, places))), `“${citation.text}”`, make('small', 'faint', ` ${citation.document}`));
      return make('li', '', open);
    });
    const list = make('ul', 'citations', ...items);
    list.setAttribute('aria-label', 'Where it stands');
    return list;
  }

  // What other documents answer.
  #alternatives(row) {
    const items = row.alternatives.map(other => {
      const sure = typeof other.confidence === 'number' ? ` ${Math.round(100 * other.confidence)} %` : '';
      const names = other.citations.map(citation => String(citation.document)).join(', ');
      return make('li', '', `“${other.answer}”`, make('small', 'faint', `${sure} ${names}`));
    });
    return make('div', 'others', make('p', 'faint', 'Other documents say'), make('ul', '', ...items));
  }

  #read(id, spans) {
    const found = this.documents.get(String(id));
    if (found) Documents.read(found.id, [], markedText(found.text, spans));
  }
}
