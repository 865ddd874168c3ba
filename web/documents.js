// The documents that questions are about: pasted, dropped or chosen, shown as a list, opened to be read and changed.
import {$, announce, button, count, inWords, make, number} from './dom.js';
import {readDocument} from './stream.js';

const shownEntries = 200;  // more are counted, not listed

export class Documents {
  all = [];  // {id, text}, and what a line of JSONL had beside them: category, title, score
  changed = () => {};
  fail = () => {};

  constructor() {
    $('add-text').onclick = () => this.takePasted();
    $('choose-files').onclick = () => $('files').click();
    $('files').onchange = () => { this.addFiles([...$('files').files]); $('files').value = ''; };
    $('clear').onclick = () => { this.set([]); $('paste').focus(); };
    $('edit-save').onclick = () => this.#save();
    $('reader-close').onclick = () => $('reader').close();
    this.#listenForDrops();
    this.draw();
  }

  set(documents) {
    this.all = [];
    for (const {id, text} of documents) this.#add(id, text);
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
    for (const file of files) {
      try {
        if (/\.jsonl$/i.test(file.name)) this.#addLines(await file.text());
        else this.#add(file.name, (await readDocument(file)).text);
        announce(`${file.name} was added`);
      } catch (error) {
        this.fail(new Error(`${file.name}: ${inWords(error)}`, {cause: error}));
      }
      this.draw();
    }
  }

  draw() {
    const entries = this.all.slice(0, shownEntries).map((document, i) => {
      const open = button('', 'open', () => this.#edit(i));
      open.append(make('b', '', document.id), make('small', 'faint', `${number(document.text.length)} characters`));
      open.title = 'Read or change it';
      const remove = button('✕', 'quiet', () => this.#remove(i));
      remove.setAttribute('aria-label', `Remove ${document.id}`);
      return make('li', '', open, remove);
    });
    if (this.all.length > shownEntries) entries.push(make('li', 'faint', `and ${number(this.all.length - shownEntries)} more`));
    $('document-list').replaceChildren(...entries);
    $('document-count').textContent = this.all.length ? count(this.all.length, 'document') : '';
    $('clear').hidden = this.all.length < 2;
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
    const taken = new Set(this.all.map(document => document.id));
    let name = String(id).trim() || 'Text';
    for (let i = 2; taken.has(name); ++i) name = `${id} ${i}`;
    this.all.push({...more, id: name, text});
  }

  // JSONL of {"id"?, "text" or "context"}.
  #addLines(text) {
    text.split('\n').forEach((line, i) => {
      if (!line.trim()) return;
      let row;
      try {
        row = JSON.parse(line);
      } catch {
        throw new Error(`line ${i + 1} is no JSON`);
      }
      const content = row.text ?? row.context;
      if (typeof content !== 'string') throw new Error(`line ${i + 1}: expected a field 'text' or 'context' with a text`);
      const {category, title, score} = row;
      this.#add(row.id ?? `line ${i + 1}`, content, {category, title, score});
    });
  }

  #remove(i) {
    announce(`${this.all[i].id} was removed`);
    this.all.splice(i, 1);
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
