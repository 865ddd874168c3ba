// The schema as rows of attributes and as JSON: whichever is changed, the other follows.
import {$, button, inWords, make} from './dom.js';

const types = ['text', 'number', 'integer', 'boolean', 'date', 'enum', 'list'];
const plain = new Set(['name', 'type', 'description', 'values']);

export class SchemaEditor {
  changed = () => {};

  constructor() {
    $('schema-text').oninput = () => this.#readText();
    $('add-attribute').onclick = () => {
      this.schema.attributes.push({name: ''});
      this.#drawRows();
      this.#writeText();
      $('attributes').querySelector('.attribute:last-child input').focus();
    };
    this.set({attributes: [{name: ''}]});
  }

  set(schema) {
    $('schema-text').value = JSON.stringify(schema, null, 1);
    this.#readText();
  }

  // What is sent. Throws in words.
  get value() {
    if (this.problem) throw new Error(this.problem);
    const schema = structuredClone(this.schema);
    if (Array.isArray(schema.attributes)) schema.attributes = schema.attributes.filter(a => a.name !== '');
    if (schema.attributes && !schema.attributes.length) throw new Error('The schema has no attribute: please name one.');
    return schema;
  }

  // Names, where the schema has one category and says them; else none are known beforehand.
  get names() {
    return this.schema?.attributes?.map(a => a.name).filter(Boolean) ?? Object.keys(this.schema?.properties ?? {});
  }

  #readText() {
    this.problem = '';
    try {
      this.schema = JSON.parse($('schema-text').value);
      if (typeof this.schema !== 'object' || this.schema === null || Array.isArray(this.schema)) throw new Error('expected an object');
    } catch (error) {
      this.problem = `The schema is no JSON: ${inWords(error)}`;
    }
    $('schema-problem').textContent = this.problem;
    this.#drawRows();
    this.changed();
  }

  #writeText() {
    $('schema-text').value = JSON.stringify(this.schema, null, 1);
    $('schema-problem').textContent = this.problem = '';
    this.changed();
  }

  #drawRows() {
    const simple = !this.problem && Array.isArray(this.schema.attributes) && this.schema.attributes.every(a => typeof a === 'object' && a !== null);
    $('add-attribute').hidden = !simple;
    if (!simple) {
      $('attributes').replaceChildren(...(this.problem ? [] : [make('p', 'faint', 'This schema is edited as JSON.')]));
      $('schema-json').open = true;
      return;
    }
    $('attributes').replaceChildren(...this.schema.attributes.map((attribute, i) => this.#row(attribute, i)));
  }

  #row(attribute, i) {
    const name = Object.assign(make('input', 'name'), {value: attribute.name ?? '', placeholder: 'name'});
    name.setAttribute('aria-label', `Name of attribute ${i + 1}`);
    name.oninput = () => { attribute.name = name.value.trim(); this.#writeText(); };
    const type = make('select', '', ...types.map(t => Object.assign(make('option', '', t), {value: t})));
    type.value = attribute.type ?? 'text';
    type.setAttribute('aria-label', `Type of attribute ${i + 1}`);
    const note = make('input', 'note');
    const noteIsValues = () => type.value === 'enum';
    const describe = () => {
      note.placeholder = noteIsValues() ? 'values, with commas between' : 'description';
      note.setAttribute('aria-label', `${noteIsValues() ? 'Values' : 'Description'} of attribute ${i + 1}`);
      note.value = noteIsValues() ? (attribute.values ?? []).join(', ') : attribute.description ?? '';
    };
    describe();
    const toggle = button('…', 'quiet', () => {
      note.hidden = !note.hidden;
      toggle.setAttribute('aria-expanded', !note.hidden);
      if (!note.hidden) note.focus();
    });
    note.hidden = !note.value && !noteIsValues();
    toggle.setAttribute('aria-label', `Describe ${attribute.name || `attribute ${i + 1}`}`);
    toggle.setAttribute('aria-expanded', !note.hidden);
    type.onchange = () => {
      attribute.type = type.value;
      if (type.value === 'text') delete attribute.type;
      if (type.value !== 'enum') delete attribute.values;
      describe();
      note.hidden = !note.value && !noteIsValues();
      this.#writeText();
    };
    note.oninput = () => {
      if (noteIsValues()) attribute.values = note.value.split(',').map(v => v.trim()).filter(Boolean);
      else if (note.value.trim()) attribute.description = note.value.trim();
      else delete attribute.description;
      this.#writeText();
    };
    const remove = button('✕', 'quiet', () => {
      this.schema.attributes.splice(i, 1);
      this.#drawRows();
      this.#writeText();
      ($('attributes').querySelectorAll('input.name')[Math.max(0, i - 1)] ?? $('add-attribute')).focus();
    });
    remove.setAttribute('aria-label', `Remove ${attribute.name || `attribute ${i + 1}`}`);
    const more = Object.keys(attribute).some(field => !plain.has(field));
    return make('div', 'attribute', name, type, toggle, remove, note, ...(more ? [make('small', 'faint', 'has more, see JSON')] : []));
  }
}
