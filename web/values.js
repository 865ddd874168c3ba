// Values of `extract`: every document with what was found in it, and where.
import {hueOf, make, markedText, tint} from './dom.js';

const show = value => value === null || value === undefined ? 'null' : typeof value === 'string' ? value : JSON.stringify(value);

export class ValuesView {
  #hues = new Map();

  constructor(place, {documents, names}) {
    this.documents = documents;
    this.found = new Array(documents.length);
    for (const name of names) this.#hue(name);
    this.cards = documents.map(document => {
      const text = make('div', 'text', document.text), table = make('table', '', make('tbody'));
      text.tabIndex = 0;
      text.setAttribute('role', 'document');
      text.setAttribute('aria-label', `Text of ${document.id}`);
      table.setAttribute('aria-label', `Values of ${document.id}`);
      for (const name of names) table.tBodies[0].append(this.#line(name, make('span', 'answer waiting'), null));
      const card = make('article', 'card values', make('h3', '', document.id, ...(document.category ? [make('small', '', ` ${document.category}`)] : [])), make('div', 'beside', table, text));
      return Object.assign(card, {table, text});
    });
    place.replaceChildren(...this.cards);
  }

  get total() { return this.documents.length; }
  token() {}
  rows() { return this.found.filter(Boolean); }
  stop() { for (const card of this.cards) card.querySelectorAll('.waiting').forEach(e => e.classList.replace('waiting', 'never')); }

  answer({document: i, row}) {
    const card = this.cards[i];
    if (!card || this.found[i]) return 0;
    this.found[i] = row;
    if (row.error) {
      card.table.replaceWith(make('p', 'bad', row.error.message));
      return 1;
    }
    // Values inside objects and lists ("address.city", "items[1].price") belong to the attribute that holds them.
    const holder = name => name in row.values ? name :
      Object.keys(row.values).find(key => name.startsWith(key + '.') || name.startsWith(key + '[')) ?? name;
    const places = given => !given ? [] : typeof given[0] === 'number' ? [given] : given.filter(Boolean);
    const spans = Object.entries(row.spans ?? {}).flatMap(([name, given]) => places(given).map(place => [holder(name), place]));
    const stands = new Set(spans.map(([name]) => name));
    const sure = name => Object.entries(row.confidence ?? {}).filter(([key, c]) => c !== null && holder(key) === name).map(([, c]) => c);
    card.table.tBodies[0].replaceChildren(...Object.entries(row.values).map(([name, value]) => {
      const said = make('span', value === null ? 'null' : '', value === null ? 'does not say' : show(value));
      if (row.truncated?.includes?.(name)) said.append(' ', make('small', 'bad', 'cut off'));
      if (row.reasons?.[name]) said.append(' ', make('small', '', row.reasons[name]));
      return this.#line(name, said, sure(name).length ? Math.min(...sure(name)) : null, stands.has(name) && (on => {
        for (const mark of card.text.querySelectorAll('mark')) mark.classList.toggle('on', on && mark.names.includes(name));
      }));
    }));
    card.text.replaceChildren(...markedText(this.documents[i].text,
      spans.map(([name, [begin, end]]) => ({begin, end, name, hue: this.#hue(name)}))));
    return 1;
  }

  #hue(name) {
    if (!this.#hues.has(name)) this.#hues.set(name, hueOf(this.#hues.size));
    return this.#hues.get(name);
  }

  // point: shows where the value stands; none: it stands nowhere.
  #line(name, value, confidence, point) {
    const label = make('th', '', tint(make('span', point ? 'dot' : 'dot none'), this.#hue(name)), name), sure = make('td', 'sure');
    label.scope = 'row';
    if (confidence !== null) {
      const probability = confidence, bar = make('span', 'bar', make('i'));
      bar.firstChild.style.width = `${Math.round(100 * probability)}%`;
      sure.append(bar, probability.toFixed(2));
      sure.title = `probability ${probability.toFixed(4)}`;
    }
    const line = make('tr', '', label, make('td', '', value), sure);
    if (point) {
      line.onmouseenter = () => point(true);
      line.onmouseleave = () => point(false);
    }
    return line;
  }
}
