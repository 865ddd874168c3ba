// The documents that questions are about: pasted, dropped or chosen, shown as a list, opened to be read and changed. A
// table gives one for each of its rows; one that is large stays a file, and its rows are read when they are asked.
import {$, announce, button, characters, count, inWords, make, number} from './dom.js';
import {readDocument} from './stream.js';
import {openTable} from './tables.js';

const shownEntries = 200;  // more are counted, not listed
const shownReasons = 50;
const largeBytes = 16 << 20;

const megabytes = bytes => `${number(Math.max(1, bytes / 1e6))} MB`;

export class Documents {
  all = [];      // {id, text, table?}, and what a row had beside them: category, title, score
  tables = [];   // those with columns to choose, and large ones
  refused = [];  // {name, reason} of files and rows that are no documents
  #ids = new Set();
  #numbers = new Map();  // of names that come again, the last that was given
  changed = () => {};
  fail = () => {};

  constructor() {
    $('add-text').onclick = () => this.takePasted();
    $('choose-files').onclick = () => $('files').click();
    $('files').onchange = () => { this.addFiles([...$('files').files]); $('files').value = ''; };
    $('clear').onclick = () => { this.set([]); $('paste').focus(); };
    $('refused-close').onclick = () => { this.#forgive(); $('choose-files').focus(); };
    $('edit-save').onclick = () => this.#save();
    $('reader-close').onclick = () => $('reader').close();
    this.#listenForDrops();
    this.draw();
  }

  get large() { return this.tables.filter(table => table.large); }
  get empty() { return !this.all.length && !this.large.length; }

  set(documents) {
    this.all = [];
    this.tables = [];
    this.#ids.clear();
    this.#numbers.clear();
    for (const {id, text} of documents) this.#add(id, text);
    this.#forgive();
    this.draw();
  }

  // What stands in the field becomes a document. True if there was something.
  takePasted() {
    const text = $('paste').value;
    if (!text.trim()) { $('paste').focus(); return false; }
    const first = text.trim().split('\n')[0].trim();
    this.#add(first.length <= 40 ? first : first.slice(0, 38).replace(/\s+\S*$/, '') + ' …', text);
    $('paste').value = '';
    this.draw();
    return true;
  }

  async addFiles(files) {
    this.#forgive();
    const before = this.all.length + this.large.length;
    for (const file of files) {
      try {
        if (!file.size) throw new Error('the file has no text');
        const table = await openTable(file);
        if (table) await this.#addTable(Object.assign(table, {name: file.name, large: file.size > largeBytes && !/\.json$/i.test(file.name)}));
        else {
          const {text} = await readDocument(file);
          if (!text.trim()) throw new Error(/\.pdf$/i.test(file.name) ? 'no text was found: are its pages pictures?' : 'the file has no text');
          this.#add(file.name, text);
        }
      } catch (error) {
        this.#refuse(file.name, inWords(error));
        if (error.status === 401) this.fail(error);
      }
      this.draw();
    }
    const added = this.all.length + this.large.length - before;
    announce(`${count(added, 'document')} added` + (this.refused.length ? `, ${number(this.refused.length)} not added` : ''));
  }

  // Every document, one after another; those of large tables come from their files.
  async *stream() {
    yield* this.all;
    for (const table of this.large) yield* table.documents(reason => { this.#refuse(table.name, reason); });
  }

  draw() {
    const entries = this.all.slice(0, shownEntries).map((document, i) => {
      const open = button('', 'open', () => this.#edit(i));
      open.append(make('b', '', document.id), make('small', 'faint', count(characters(document.text), 'character')));
      open.title = 'Read or change it';
      const remove = button('✕', 'quiet', () => this.#remove(i));
      remove.setAttribute('aria-label', `Remove ${document.id}`);
      return make('li', '', open, remove);
    });
    if (this.all.length > shownEntries) entries.push(make('li', 'faint', `and ${number(this.all.length - shownEntries)} more`));
    $('document-list').replaceChildren(...entries);
    $('tables').replaceChildren(...this.tables.map(table => this.#tablePart(table)));
    $('document-count').textContent = [this.all.length && count(this.all.length, 'document'),
      this.large.length && count(this.large.length, 'large table')].filter(Boolean).join(', ');
    $('clear').hidden = this.all.length + this.tables.length < 2;
    $('refused').hidden = !this.refused.length;
    const rest = this.refused.length - shownReasons;
    $('refused-title').textContent = `Not added: ${number(this.refused.length)}`;
    $('refused-list').replaceChildren(...this.refused.slice(0, shownReasons).map(({name, reason}) => make('li', '', make('b', '', name), `: ${reason}`)),
      ...(rest > 0 ? [make('li', '', `and ${number(rest)} more`)] : []));
    this.changed();
  }

  // Shows a text in the reader, with what stands above it and the marked pieces of it.
  static read(title, above, pieces) {
    $('reader-title').textContent = title;
    $('reader-above').replaceChildren(...above);
    $('reader-text').replaceChildren(...pieces);
    $('reader-text').hidden = false;
    $('reader-edit').hidden = true;
    $('reader').showModal();
    $('reader-text').querySelector('mark')?.scrollIntoView({block: 'center'});
  }

  #add(id, text, more = {}) {
    let name = String(id).trim() || 'Text';
    for (const first = name; this.#ids.has(name);) {
      const next = (this.#numbers.get(first) ?? 1) + 1;
      this.#numbers.set(first, next);
      name = `${first} ${next}`;
    }
    this.#ids.add(name);
    this.all.push({...more, id: name, text});
  }

  #refuse(name, reason) { this.refused.push({name, reason}); }

  #forgive() {
    this.refused = [];
    $('refused').hidden = true;
  }

  async #addTable(table) {
    if (table.large || table.columns) this.tables.push(table);
    if (!table.large) await this.#readTable(table);
  }

  // Its rows as documents, in place of those that it had before.
  async #readTable(table) {
    const first = this.all.findIndex(document => document.table === table), others = this.all.filter(document => document.table !== table);
    const before = first < 0 ? [...others] : this.all.slice(0, first), after = others.slice(before.length);
    this.#dropRows(table);
    this.all = before;
    for await (const {id, text, ...more} of table.documents(reason => { this.#refuse(table.name, reason); })) this.#add(id, text, {...more, table});
    this.all.push(...after);
    table.rows = this.all.length - others.length;
  }

  #dropRows(table) {
    for (const document of this.all) if (document.table === table) this.#ids.delete(document.id);
    this.all = this.all.filter(document => document.table !== table);
  }

  // Which column is the text, and which the name.
  #tablePart(table) {
    const choose = (label, value, names, set) => {
      const select = make('select', '', ...names.map(([at, name]) => Object.assign(make('option', '', name), {value: at})));
      select.value = value;
      select.setAttribute('aria-label', `${label} of ${table.name}`);
      select.onchange = async () => {
        set(Number(select.value));
        this.refused = this.refused.filter(({name}) => name !== table.name);
        if (!table.large) await this.#readTable(table);
        this.draw();
        $('tables').querySelector(`[aria-label="${CSS.escape(`${label} of ${table.name}`)}"]`)?.focus();
      };
      return make('label', '', `${label} `, select);
    };
    const columns = (table.columns ?? []).map((name, i) => [i, name.trim() || `column ${i + 1}`]);
    const remove = button('✕', 'quiet', () => {
      this.#dropRows(table);
      this.tables = this.tables.filter(other => other !== table);
      announce(`${table.name} was removed`);
      this.draw();
      $('choose-files').focus();
    });
    remove.setAttribute('aria-label', `Remove ${table.name}`);
    const told = table.large ? `${megabytes(table.file.size)}, read while it is asked` : count(table.rows ?? 0, 'row');
    const part = make('div', 'table-part', make('div', 'head', make('b', '', table.name), make('small', 'faint', told), remove));
    if (columns.length) {
      part.append(make('div', 'row', choose('Text', table.text, columns, at => { table.text = at; }),
        choose('Name', table.id, [[-1, 'number of the row'], ...columns], at => { table.id = at; })));
    }
    return part;
  }

  #remove(i) {
    announce(`${this.all[i].id} was removed`);
    this.#ids.delete(this.all[i].id);
    const {table} = this.all[i];
    this.all.splice(i, 1);
    if (table && !--table.rows) this.tables = this.tables.filter(other => other !== table);
    this.draw();
    ($('document-list').querySelectorAll('.open')[Math.min(i, this.all.length - 1)] ?? $('paste')).focus();
  }

  #edit(i) {
    this.edited = i;
    $('reader-title').textContent = this.all[i].id;
    $('reader-above').replaceChildren();
    $('reader-text').hidden = true;
    $('reader-edit').hidden = false;
    $('edit-name').value = this.all[i].id;
    $('edit-text').value = this.all[i].text;
    $('reader').showModal();
    $('edit-text').focus();
    $('edit-text').setSelectionRange(0, 0);
    $('edit-text').scrollTop = 0;
  }

  #save() {
    const [old] = this.all.splice(this.edited, 1);
    this.#ids.delete(old.id);
    this.#add($('edit-name').value.trim() || old.id, $('edit-text').value, old);
    this.all.splice(this.edited, 0, this.all.pop());
    $('reader').close();
    this.draw();
    $('document-list').querySelectorAll('.open')[this.edited]?.focus();
  }

  #listenForDrops() {
    let depth = 0;
    const has = event => [...event.dataTransfer?.types ?? []].includes('Files');
    const show = on => { $('drop').hidden = !on; };
    addEventListener('dragenter', event => { if (has(event)) show(++depth > 0); });
    addEventListener('dragleave', event => { if (has(event)) show((depth = Math.max(0, depth - 1)) > 0); });
    addEventListener('dragover', event => { if (has(event)) event.preventDefault(); });
    addEventListener('drop', event => {
      if (!has(event)) return;
      event.preventDefault();
      show((depth = 0) > 0);
      this.addFiles([...event.dataTransfer.files]);
    });
  }
}
