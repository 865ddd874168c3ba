'use strict';
const $ = id => document.getElementById(id);
const rows = JSON.parse($('data').textContent).rows;
const make = (tag, text, name) => {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (name) element.className = name;
  return element;
};
const show = value => value === null || value === undefined ? 'null' : typeof value === 'string' ? value : JSON.stringify(value);
const count = (n, noun) => `${n.toLocaleString('en')} ${noun}${n === 1 ? '' : 's'}`;

// Every attribute has a colour of its own, in the order in which attributes appear.
const hues = new Map();
for (const row of rows) for (const name in row.values || {}) if (!hues.has(name)) hues.set(name, Math.round(150 + hues.size * 137.5) % 360);
const colour = (element, name) => { element.style.setProperty('--hue', hues.get(name)); return element; };

// Values inside objects and lists ("address.city", "items[1].price") are shown with the attribute that holds them.
const holder = (row, name) => name in row.values ? name :
  Object.keys(row.values).find(key => name.startsWith(key + '.') || name.startsWith(key + '[')) ?? name;
// A value's places: none (null), one ([begin, end]), or one for each item of a list.
const places = given => given === null || given === undefined ? [] : typeof given[0] === 'number' ? [given] : given.filter(Boolean);
const held = (row, name, field) => Object.entries(row[field] || {}).filter(([key]) => holder(row, key) === name).map(([, value]) => value);

// A row has one document, its text, or several of one thing; a source is the id of one of these.
const documentsOf = row => row.documents ?? [{text: row.text}];
const textOf = row => documentsOf(row).map(document => document.text).join('\n');
const sourceOf = (row, name, item) => { const given = (row.sources || {})[name]; return Array.isArray(given) ? given[item] : given; };

// The probability of a row's least sure value; of a failed row, 0.
const sureness = rows.map(row => {
  const given = Object.values(row.confidence || {}).filter(c => c !== null);
  return given.length ? Math.min(...given) : row.error ? 0 : 1;
});
let words = null;  // of every row, in lower case, made when somebody looks for one
const wordsOf = i => {
  words ??= rows.map(() => null);
  const row = rows[i];
  return words[i] ??= `${row.id} ${row.category ?? ''} ${textOf(row)} ${JSON.stringify(row.values ?? row.error)}`.toLowerCase();
};

let shown = [], at = -1, mode = 'documents', wanted = null;  // indices of rows; place in shown; {name, value}

function filter() {
  const text = $('find').value.trim().toLowerCase();
  shown = [];
  for (let i = 0; i < rows.length; ++i) {
    if (text && !wordsOf(i).includes(text)) continue;
    if (wanted && show((rows[i].values || {})[wanted.name]) !== wanted.value) continue;
    shown.push(i);
  }
  if ($('order').value === 'sure') shown.sort((a, b) => sureness[a] - sureness[b] || a - b);
  $('count').textContent = (shown.length === rows.length ? '' : `${shown.length.toLocaleString('en')} of `) +
    count(rows.length, 'document') + (wanted ? ` with ${wanted.name} = ${wanted.value}` : '');
  if (wanted) {
    const all = make('button', 'all');
    all.setAttribute('aria-label', 'Show all documents again');
    all.onclick = () => { wanted = null; filter(); };
    $('count').append(' ', all);
  }
  $('list').scrollTop = 0;
  choose(shown.length ? 0 : -1);
}

const height = 52, above = 8;
const inner = make('div');
$('list').append(inner);
function drawList() {
  const list = $('list'), first = Math.max(0, Math.floor(list.scrollTop / height) - above);
  const last = Math.min(shown.length, Math.ceil((list.scrollTop + list.clientHeight) / height) + above);
  inner.style.height = shown.length * height + 'px';
  const entries = [];
  for (let place = first; place < last; ++place) {
    const row = rows[shown[place]], entry = make('div', undefined, row.error ? 'entry bad' : 'entry');
    entry.style.top = place * height + 'px';
    entry.id = 'entry-' + place;
    for (const [name, value] of [['role', 'option'], ['aria-selected', place === at], ['aria-setsize', shown.length], ['aria-posinset', place + 1]]) {
      entry.setAttribute(name, value);
    }
    entry.append(make('b', String(row.id)), make('small', (row.category ? row.category + ' · ' : '') + textOf(row).slice(0, 80)));
    entry.onclick = () => choose(place);
    entries.push(entry);
  }
  inner.replaceChildren(...entries);
  if (at >= first && at < last) list.setAttribute('aria-activedescendant', 'entry-' + at);
  else list.removeAttribute('aria-activedescendant');
}
let due = 0;
const drawListSoon = () => { due ||= requestAnimationFrame(() => { due = 0; drawList(); }); };
$('list').addEventListener('scroll', drawListSoon, {passive: true});
addEventListener('resize', drawListSoon);

function choose(place) {
  at = Math.min(place, shown.length - 1);
  const list = $('list'), top = at * height;
  if (at >= 0 && top < list.scrollTop) list.scrollTop = top;
  if (at >= 0 && top + height > list.scrollTop + list.clientHeight) list.scrollTop = top + height - list.clientHeight;
  drawList();
  if (mode === 'documents') drawDocument();
}
$('list').onkeydown = event => {
  const page = Math.max(1, Math.floor($('list').clientHeight / height) - 1);
  const to = {ArrowDown: at + 1, ArrowUp: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1}[event.key];
  if (to === undefined || !shown.length) return;
  event.preventDefault();
  choose(Math.max(0, Math.min(shown.length - 1, to)));
};

// A document's text in pieces that begin and end where spans do; a span counts characters, not UTF-16 units.
function markedText(row, document) {
  const stands = (name, item) => document.id === undefined || sourceOf(row, name, item) === document.id;
  const all = given => given === null || given === undefined ? [] : typeof given[0] === 'number' ? [given] : given;
  const text = make('div', undefined, 'text'), spans = Object.entries(row.spans || {})
    .flatMap(([name, given]) => all(given).map((place, item) => place && stands(name, item) ? [holder(row, name), place] : null).filter(Boolean));
  const characters = /[\ud800-\udfff]/.test(document.text) ? Array.from(document.text) : document.text;
  const piece = (begin, end) => typeof characters === 'string' ? characters.slice(begin, end) : characters.slice(begin, end).join('');
  const cuts = [...new Set([0, characters.length, ...spans.flatMap(([, span]) => span)])].sort((a, b) => a - b);
  for (let i = 0; i + 1 < cuts.length; ++i) {
    const names = spans.filter(([, [begin, end]]) => begin <= cuts[i] && cuts[i + 1] <= end).map(([name]) => name);
    const part = piece(cuts[i], cuts[i + 1]);
    if (!names.length) { text.append(part); continue; }
    const mark = colour(make('mark', part), names[0]);
    mark.dataset.names = mark.title = names.join(', ');
    mark.names = names;
    text.append(mark);
  }
  return text;
}

function drawDocument() {
  const view = $('view');
  view.replaceChildren();
  view.scrollTop = 0;
  if (at < 0) { view.append(make('p', rows.length ? 'No document has that.' : 'The job wrote no rows.', 'faint')); return; }
  const row = rows[shown[at]];
  view.append(make('h2', String(row.id)));
  if (row.category) view.append(make('small', row.category));
  if (row.error) view.append(make('p', `${row.error.kind}: ${row.error.message}`, 'bad'));
  const point = (name, scroll) => view.querySelectorAll('mark').forEach(mark => {
    mark.classList.toggle('on', mark.names.includes(name));
    if (scroll && mark.names[0] === name) mark.scrollIntoView({block: 'nearest'});
  });
  if (row.values) {
    const table = make('table'), head = make('tr'), body = make('tbody');
    for (const title of ['Attribute', 'Value', 'Probability']) head.append(Object.assign(make('th', title), {scope: 'col'}));
    for (const name in row.values) {
      const value = row.values[name], given = held(row, name, 'confidence').filter(c => c !== null), sure = given.length ? Math.min(...given) : null;
      const stands = held(row, name, 'spans').flatMap(places).length > 0, why = held(row, name, 'reasons');
      const line = make('tr', undefined, stands ? '' : 'none'), label = make('th'), button = make('button');
      label.scope = 'row';
      button.append(colour(make('span', undefined, 'dot'), name), name);
      button.title = stands ? 'Show where it stands' : 'Not word for word in the text';
      button.onclick = () => point(name, true);
      label.append(button);
      const last = make('td');
      if (sure !== null) {
        const bar = make('span', undefined, 'bar'), fill = make('i');
        fill.style.width = Math.round(sure * 100) + '%';
        bar.append(fill);
        last.append(bar, sure.toFixed(3));
      }
      if ((row.truncated || []).includes(name)) last.append(make('span', ' cut off', 'bad'));
      const cell = make('td', show(value), value === null ? 'null' : '');
      if (value !== null && !stands) cell.append(' ', make('small', 'not in the text'));
      for (const reason of why) cell.append(' ', make('small', reason));
      const from = [...new Set(held(row, name, 'sources').flat().map(show))], same = held(row, name, 'agreeing').flat().map(show);
      if (from.length) cell.append(' ', make('small', 'from ' + from.join(', ') + (same.length ? ', also in ' + same.join(', ') : ''), 'source'));
      for (const other of held(row, name, 'conflicts').flat()) cell.append(' ', make('small', `${show(other.document)} says ${show(other.value)}`, 'bad'));
      line.append(label, cell, last);
      line.onmouseenter = () => point(name, false);
      line.onmouseleave = () => point(null, false);
      body.append(line);
    }
    table.setAttribute('aria-label', 'Values');
    const top = make('thead');
    top.append(head);
    table.append(top, body);
    view.append(table);
  }
  for (const document of documentsOf(row)) {
    if (document.id !== undefined) view.append(make('h3', show(document.id), 'document'));
    view.append(markedText(row, document));
  }
}

let stats = null;
function countValues() {
  const all = new Map();
  for (const row of rows) for (const name in row.values || {}) {
    if (!all.has(name)) all.set(name, {rows: 0, filled: 0, values: new Map(), sure: new Array(10).fill(0)});
    const its = all.get(name), value = row.values[name], c = Math.min(...held(row, name, 'confidence').filter(c => c !== null), Infinity);
    ++its.rows;
    if (value !== null) { ++its.filled; its.values.set(show(value), (its.values.get(show(value)) || 0) + 1); }
    if (c <= 1) ++its.sure[Math.min(9, Math.floor(c * 10))];
  }
  return all;
}

function drawAttributes() {
  stats ??= countValues();
  const cards = make('div', undefined, 'cards');
  for (const [name, its] of stats) {
    const card = colour(make('article', undefined, 'card'), name), title = make('h3'), list = make('ol');
    title.append(make('span', undefined, 'dot'), name);
    for (const [value, n] of [...its.values].sort((a, b) => b[1] - a[1]).slice(0, 10)) {
      const item = make('li'), button = make('button'), bar = make('i');
      bar.style.width = Math.max(1, 100 * n / its.rows) + '%';
      button.append(make('span', value.slice(0, 120)), make('small', n.toLocaleString('en')), bar);
      button.title = 'Show its documents';
      button.onclick = () => { wanted = {name, value}; turnTo('documents'); filter(); $('list').focus(); };
      item.append(button);
      list.append(item);
    }
    const most = Math.max(1, ...its.sure), chart = make('div', undefined, 'hist'), axis = make('small', undefined, 'axis');
    chart.setAttribute('role', 'img');
    chart.setAttribute('aria-label', 'Values by probability in tenths from 0 to 1: ' + its.sure.join(', '));
    its.sure.forEach((n, tenth) => {
      const bar = make('b');
      bar.style.height = (n ? Math.max(3, 100 * n / most) : 0) + '%';
      bar.title = `${tenth / 10} to ${(tenth + 1) / 10}: ${n}`;
      chart.append(bar);
    });
    for (const text of ['0', 'probability', '1']) axis.append(make('span', text));
    const more = its.values.size > 10 ? [make('small', `and ${count(its.values.size - 10, 'more value')}`)] : [];
    card.append(title, make('small', `${its.filled.toLocaleString('en')} of ${its.rows.toLocaleString('en')} filled, ` +
      `${its.values.size.toLocaleString('en')} different`), list, ...more, chart, axis);
    cards.append(card);
  }
  $('view').replaceChildren(cards);
}

const tabs = [$('documents'), $('attributes')];
function turnTo(id) {
  mode = id;
  for (const tab of tabs) {
    tab.setAttribute('aria-selected', tab.id === mode);
    tab.tabIndex = tab.id === mode ? 0 : -1;
  }
  document.querySelector('main').classList.toggle('whole', mode === 'attributes');
  $('view').setAttribute('aria-label', mode === 'attributes' ? 'Attributes' : 'Chosen document');
  for (const id of ['find', 'order']) $(id).hidden = mode === 'attributes';
  if (mode === 'attributes') drawAttributes(); else choose(at);
}
for (const tab of tabs) {
  tab.onclick = () => turnTo(tab.id);
  tab.onkeydown = event => {
    if (event.key !== 'ArrowLeft' && event.key !== 'ArrowRight') return;
    const other = tabs[1 - tabs.indexOf(tab)];
    turnTo(other.id);
    other.focus();
  };
}
let timer = 0;
$('find').oninput = () => { clearTimeout(timer); timer = setTimeout(filter, 150); };
$('order').onchange = filter;
const night = matchMedia('(prefers-color-scheme:dark)'), dress = dark => document.documentElement.classList.toggle('dark', dark);
night.onchange = () => dress(night.matches);
$('theme').onclick = () => dress(!document.documentElement.classList.contains('dark'));
dress(night.matches);
const failed = rows.filter(row => row.error).length;
$('sum').textContent = [count(rows.length, 'document'), count(hues.size, 'attribute'), ...(failed ? [`${failed} failed`] : [])].join(' · ');
filter();
turnTo('documents');
