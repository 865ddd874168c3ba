// Answers of `ask`, as they are written: a list where there is one document or one question, else a table of documents
// by questions whose cells have one size, so that a token that arrives moves nothing else.
import {hueOf, make, markedText} from './dom.js';
import {Documents} from './documents.js';

const notSaid = 'does not say';

class Answer {
  constructor(element) {
    this.element = element;
    this.text = document.createTextNode('');
    element.append(this.text);
    element.classList.add('answer', 'waiting');
  }

  add(text) {
    if (this.row) return;
    if (this.element.classList.replace('waiting', 'writing')) text = text.trimStart();
    this.text.appendData(text);
  }

  end(row) {
    this.row = row;
    this.element.classList.remove('waiting', 'writing');
    this.element.classList.toggle('bad', 'error' in row);
    this.element.classList.toggle('null', !('error' in row) && row.answer === null);
    this.text.data = 'error' in row ? row.error.message : row.answer ?? notSaid;
  }

  stop() {
    if (this.row) return;
    this.element.classList.remove('waiting', 'writing');
    this.element.classList.add('stopped');
  }
}

export class AnswersView {
  constructor(place, {documents, questions}) {
    Object.assign(this, {place, documents, questions});
    this.answers = new Array(documents.length * questions.length);
    if (documents.length === 1 || questions.length === 1) this.#drawList();
    else this.#drawTable();
  }

  get total() { return this.answers.length; }
  #at(event) { return this.answers[event.document * this.questions.length + event.question]; }
  token(event) { this.#at(event)?.add(event.text); }
  answer(event) { this.#at(event)?.end(event.row); }
  stop() { for (const answer of this.answers) answer.stop(); }

  // In the order of documents, within them of questions.
  rows() { return this.answers.filter(answer => answer.row).map(answer => answer.row); }

  #drawList() {
    const list = make('ol', 'answers-list'), one = this.documents.length === 1;
    for (let i = 0; i < this.total; ++i) {
      const label = one ? this.questions[i] : this.documents[i].id, item = make('li'), line = make('button', 'line');
      line.type = 'button';
      const text = make('span');
      line.append(make('span', 'asked', label), text);
      line.onclick = () => this.#open(i);
      this.answers[i] = new Answer(text);
      item.append(line);
      list.append(item);
    }
    this.place.replaceChildren(list);
  }

  #drawTable() {
    const columns = this.questions.length, table = make('div', 'matrix');
    table.setAttribute('role', 'grid');
    table.setAttribute('aria-label', 'Answers: documents down, questions across');
    table.setAttribute('aria-rowcount', this.documents.length + 1);
    table.setAttribute('aria-colcount', columns + 1);
    table.style.setProperty('--columns', columns);
    const row = (...cells) => {
      const element = make('div', 'matrix-row', ...cells);
      element.setAttribute('role', 'row');
      return element;
    };
    const cell = (role, name, ...children) => {
      const element = make('div', name, ...children);
      element.setAttribute('role', role);
      return element;
    };
    table.append(row(cell('columnheader', 'corner', `${this.documents.length} × ${columns}`),
      ...this.questions.map(question => Object.assign(cell('columnheader', 'across', question), {title: question}))));
    this.documents.forEach((document, i) => {
      const cells = this.questions.map((question, j) => {
        const element = cell('gridcell', 'cell'), at = i * columns + j;
        element.tabIndex = at === 0 ? 0 : -1;
        element.dataset.at = at;
        this.answers[at] = new Answer(element);
        return element;
      });
      table.append(row(Object.assign(cell('rowheader', 'down', document.id), {title: document.id}), ...cells));
    });
    table.onclick = event => {
      const at = event.target.closest('.cell')?.dataset.at;
      if (at !== undefined) { this.#focus(+at); this.#open(+at); }
    };
    table.onkeydown = event => this.#key(event);
    this.focused = 0;
    this.place.replaceChildren(table);
  }

  #focus(at) {
    this.answers[this.focused].element.tabIndex = -1;
    this.focused = at;
    const element = this.answers[at].element;
    element.tabIndex = 0;
    element.focus();
  }

  #key(event) {
    const at = +event.target.dataset.at, columns = this.questions.length, column = at % columns;
    if (Number.isNaN(at)) return;
    const to = {
      ArrowRight: column + 1 < columns ? at + 1 : at, ArrowLeft: column > 0 ? at - 1 : at,
      ArrowDown: at + columns < this.total ? at + columns : at, ArrowUp: at >= columns ? at - columns : at,
      Home: event.ctrlKey ? 0 : at - column, End: event.ctrlKey ? this.total - 1 : at - column + columns - 1,
    }[event.key];
    if (event.key === 'Enter' || event.key === ' ') this.#open(at);
    else if (to === undefined) return;
    else this.#focus(to);
    event.preventDefault();
  }

  #open(at) {
    const columns = this.questions.length, document = this.documents[Math.floor(at / columns)], {row, text} = this.answers[at];
    const said = make('p', 'said', text.data);
    said.classList.toggle('null', row?.answer === null);
    said.classList.toggle('bad', Boolean(row?.error));
    const spans = row?.start === undefined ? [] : [{begin: row.start, end: row.end, name: 'answer', hue: hueOf(0)}];
    Documents.read(document.id, [make('p', 'asked', this.questions[at % columns]), said], markedText(document.text, spans));
  }
}
