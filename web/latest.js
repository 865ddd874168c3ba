// Rows that go into a file: the last few of them, as they come. The others are in the file.
import {make} from './dom.js';

const shown = 12;

const wordsOf = row => row.error ? row.error.message : row.values ? JSON.stringify(row.values) : row.answer ?? 'does not say';

export class LatestView {
  total = NaN;  // not known before the end
  #list = make('ol', 'answers-list latest');
  #told = make('p', 'faint');

  constructor(place, name) {
    this.name = name;
    this.#told.textContent = `Rows go into ${name}. The last ones:`;
    place.replaceChildren(this.#told, this.#list);
  }

  answer({row}) {
    const text = make('span', `answer${row.error ? ' bad' : row.answer === null ? ' null' : ''}`, wordsOf(row));
    const asked = make('span', 'asked', [row.id, row.question].filter(part => part != null && part !== '').join(' · '));
    this.#list.append(make('li', 'line', asked, text));
    while (this.#list.childElementCount > shown) this.#list.firstChild.remove();
    return 1;
  }

  token() {}
  rows() { return []; }
  stop() { this.#told.textContent = `The rows are in ${this.name}. The last ones:`; }
}
