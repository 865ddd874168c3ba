// Answers of `ask`, as they are written: a list where there is one document or one question, else a table of documents
// and questions whose cells have one size, so that a token that arrives moves nothing else.
import {hueOf, make, markedText, number} from './dom.js';
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
    if (!('error' in row) && row.confidence !== undefined) this.element.dataset.sure = `${Math.round(100 * row.confidence)} %`;
  }

  stop() {
    if (this.row) return;
    this.element.classList.remove('waiting', 'writing');
    this.element.classList.add(this.text.data ? 'stopped' : 'never');
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

  // How many answers are there now that were not. A document that cannot be read has one row for all its questions.
  answer(event) {
    const {document, row} = event, all = row.error && row.question_id == null && row.question == null;
    const ended = (all ? this.questions.map((_, question) => this.#at({document, question})) : [this.#at(event)]).filter(a => a && !a.row);
    for (const answer of ended) answer.end(row);
    return ended.length;
  }

  stop() { for (const answer of this.answers) answer.stop(); }

  // For the forest.
  placed() { return this.answers.map((answer, i) => ({document: Math.floor(i / this.questions.length), row: answer.row})); }

  // In the order of documents, within them of questions.
  rows() { return [...new Set(this.answers.map(answer => answer.row).filter(Boolean))]; }

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

  // The longer of the two goes down.
  #drawTable() {
    const asked = this.questions.map((question, j) => ({text: question, stride: 1, i: j}));
    const read = this.documents.map((document, i) => ({text: document.id, stride: this.questions.length, i}));
    const questionsDown = asked.length >= read.length, [down, across] = questionsDown ? [asked, read] : [read, asked];
    const table = make('div', 'matrix');
    table.setAttribute('role', 'grid');
    table.setAttribute('aria-label', `Answers: ${questionsDown ? 'questions down, documents across' : 'documents down, questions across'}`);
    table.setAttribute('aria-rowcount', down.length + 1);
    table.setAttribute('aria-colcount', across.length + 1);
    table.style.setProperty('--columns', across.length);
    const cell = (role, name, ...children) => {
      const element = make('div', name, ...children);
      element.setAttribute('role', role);
      return element;
    };
    const header = (role, name, text) => Object.assign(cell(role, name, text), {title: text});
    table.append(cell('row', 'matrix-row', cell('columnheader', 'corner', `${number(this.documents.length)} × ${number(this.questions.length)}`),
      ...across.map(({text}) => header('columnheader', 'across', text))));
    this.grid = down.map(row => across.map(column => row.i * row.stride + column.i * column.stride));
    this.grid.forEach((places, y) => {
      table.append(cell('row', 'matrix-row', header('rowheader', questionsDown ? 'down asked' : 'down', down[y].text), ...places.map((at, x) => {
        const element = cell('gridcell', 'cell');
        element.tabIndex = x + y === 0 ? 0 : -1;
        Object.assign(element.dataset, {x, y});
        this.answers[at] = new Answer(element);
        return element;
      })));
    });
    table.onclick = event => {
      const chosen = event.target.closest('.cell');
      if (!chosen) return;
      this.#focus(+chosen.dataset.x, +chosen.dataset.y);
      this.#open(this.grid[chosen.dataset.y][chosen.dataset.x]);
    };
    table.onkeydown = event => this.#key(event);
    this.focused = this.grid[0][0];
    this.place.replaceChildren(table);
  }

  #focus(x, y) {
    this.answers[this.focused].element.tabIndex = -1;
    this.focused = this.grid[y][x];
    const {element} = this.answers[this.focused];
    element.tabIndex = 0;
    element.focus();
  }

  #key(event) {
    const {x, y} = event.target.dataset, width = this.grid[0].length, height = this.grid.length;
    if (x === undefined) return;
    const to = {
      ArrowRight: [+x + 1, y], ArrowLeft: [x - 1, y], ArrowDown: [x, +y + 1], ArrowUp: [x, y - 1], PageDown: [x, +y + 8], PageUp: [x, y - 8],
      Home: [0, event.ctrlKey ? 0 : y], End: [width - 1, event.ctrlKey ? height - 1 : y],
    }[event.key];
    if (event.key === 'Enter' || event.key === ' ') this.#open(this.grid[y][x]);
    else if (!to) return;
    else this.#focus(Math.max(0, Math.min(width - 1, to[0])), Math.max(0, Math.min(height - 1, to[1])));
    event.preventDefault();
  }

  #open(at) {
    const columns = this.questions.length, document = this.documents[Math.floor(at / columns)], {row, text} = this.answers[at];
    const said = make('p', 'said', text.data);
    said.classList.toggle('null', row?.answer === null);
    said.classList.toggle('bad', Boolean(row?.error));
    const sure = row?.confidence === undefined ? [] : [make('p', 'faint', `right with ${Math.round(100 * row.confidence)} %`)];
    const spans = row?.start === undefined ? [] : [{begin: row.start, end: row.end, name: 'answer', hue: hueOf(0)}];
    Documents.read(document.id, [make('p', 'asked', this.questions[at % columns]), said, ...sure], markedText(document.text, spans));
  }
}
