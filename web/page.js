// The page of `banyan serve`: one set of documents, three things to do with them, a run at a time.
import {$, Frames, announce, count, inWords, make, number} from './dom.js';
import {AnswersView} from './answers.js';
import {Documents} from './documents.js';
import {ExpertsView} from './experts.js';
import {ForestView} from './forest.js';
import {LatestView} from './latest.js';
import {SchemaEditor} from './schema.js';
import {ValuesView} from './values.js';
import {asCommand, asCsv, asJsonLines, csvColumns, csvHeader, csvRow, toClipboard} from './copy.js';
import {documentOf, questions, requestOf, tasks} from './request.js';
import {events, getJson, hasKey, useKey} from './stream.js';
import {examples} from './examples.js';
import {openRowFile} from './row_file.js';
import {showFigures, showProgress, takeEvents} from './progress.js';
import {runRounds} from './rounds.js';

const documents = new Documents(), schema = new SchemaEditor(), views = {ask: AnswersView, extract: ValuesView, experts: ExpertsView};
let health = {model: '', keys: false, index: false, adapters: [], task_adapters: {}, max_answers: 4096, max_body: 32 << 20};
let task = 'ask', running = null, refused = false;  // refused: a run for want of a key

for (const [name, its] of Object.entries(tasks)) {
  const panel = $('panel').content.firstElementChild.cloneNode(true);
  its.panel = panel;
  its.find = selector => panel.querySelector(selector);
  its.find('.welcome h2').textContent = its.title;
  its.find('.welcome p').textContent = its.about;
  its.find('.example').onclick = () => { showExample(name); start(); };
  for (const copy of panel.querySelectorAll('[data-copy]')) copy.onclick = () => copyAs(name, copy);
  $('panels').append(panel);
}

function showExample(name) {
  const example = examples[name];
  documents.set(example.documents);
  if (example.questions) $('questions').value = example.questions.join('\n');
  if (example.schema) schema.set(example.schema);
  $('relevance').value = example.relevance ?? '';
  plan();
}

// Whether there is more than one request and the page can hold: then rows go into a file.
function isLarge(name) {
  return name !== 'experts' && (documents.large.length > 0 || documents.all.length * (name === 'ask' ? questions().length : 1) > health.max_answers);
}

// With the documents, unless they are read later.
function request(name, toFile) {
  if (documents.empty && !(name === 'experts' && health.index)) throw new Error('There is no document. Paste a text, or drop a file.');
  if (name === 'experts' && documents.large.length) {
    throw new Error(`${documents.large[0].name} is large, and the experts read every document for each question. Make an index of it: banyan rag index.`);
  }
  const body = requestOf(name, schema);
  if (documents.all.length && !(toFile && name !== 'experts')) body.documents = documents.all.map(document => documentOf(name, document));
  return body;
}

// How much there is to do, beside the button.
function plan() {
  const d = documents.all.length + ($('paste').value.trim() ? 1 : 0), q = questions().length;
  $('plan').textContent = task === 'extract' ? (d ? count(d, 'document') : '')
    : task === 'experts' ? (q ? `${count(q, 'answer')} from ${d ? count(d, 'document') : 'the index'}` : '')
    : d && q ? `${number(d)} × ${number(q)} = ${count(d * q, 'answer')}` : '';
  if (isLarge(task)) $('plan').textContent = 'more than a page shows: rows go into a file';
  $('run').textContent = tasks[task].verb + (isLarge(task) ? ' …' : '');
  $('to-file').hidden = isLarge(task) || Boolean(running);
}

function showError(error) {
  $('error').hidden = !error;
  $('error').textContent = error ? inWords(error) : '';
  if (error?.status === 401 || error?.cause?.status === 401) {
    $('key-open').hidden = false;
    refused = error.status === 401;
    askForKey();
  }
}

function turnTo(name) {
  task = name;
  for (const tab of document.querySelectorAll('[role=tab]')) {
    const on = tab.dataset.task === name;
    tab.setAttribute('aria-selected', on);
    tab.tabIndex = on ? 0 : -1;
    tasks[tab.dataset.task].panel.hidden = !on;
    if (on) $('results').setAttribute('aria-label', `${tab.textContent}: results`);
  }
  $('questions-part').hidden = name === 'extract';
  $('schema-part').hidden = name !== 'extract';
  for (const option of document.querySelectorAll('[data-only]')) option.hidden = !option.dataset.only.split(' ').includes(name);
  $('copy-default').textContent = tasks[name].copied;
  showAdapters();
  showError(null);
  plan();
}

// Adapters that the server keeps apart, where it has any.
function showAdapters() {
  const chosen = $('adapter').value, own = health.task_adapters[tasks[task].name];
  const option = (value, text) => Object.assign(make('option', '', text), {value});
  $('adapter-part').hidden = !health.adapters.length;
  $('adapter').replaceChildren(option('', own ? `${own}, by default` : 'none: the model itself'),
    ...health.adapters.filter(name => name !== own).map(name => option(name, name)));
  $('adapter').value = chosen;
  if ($('adapter').selectedIndex < 0) $('adapter').value = '';
}

// On a phone the answers stand below what was asked. A page that is too short to bring them up has grown by the end of the
// run, when this is asked for once more, unless a person has moved it meanwhile.
let touched = false;
for (const moved of ['wheel', 'touchmove', 'keydown']) addEventListener(moved, () => { touched = true; }, {passive: true});
function comeIntoView() {
  if (touched || !matchMedia('(max-width: 860px)').matches) return;
  const behavior = matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth';
  tasks[task].find('.progress').scrollIntoView({behavior});
}

// Looks as it does while something runs. Returns what stops it.
function begin(name, body, view) {
  const its = tasks[name], stop = new AbortController(), now = performance.now();
  running = {stop};
  its.body = body;
  its.state = {done: 0, failed: 0, saved: 0, begin: now, told: now, nextForest: 0};
  its.view = view;
  its.forest?.close();
  its.find('.forest').hidden = true;
  its.forest = new ForestView(its.find('.forest'), body.documents ?? [], its.words);
  its.find('.welcome').hidden = true;
  its.find('.progress').hidden = false;
  its.panel.setAttribute('aria-busy', 'true');
  for (const copy of its.panel.querySelectorAll('[data-copy]')) copy.disabled = copy.dataset.copy !== 'command' || view instanceof LatestView;
  $('run').disabled = true;
  $('to-file').hidden = true;
  $('stop').hidden = false;
  touched = false;
  comeIntoView();
  announce(Number.isNaN(view.total) ? 'Working' : `Working on ${count(view.total, its.noun)}`);
  showFigures(its);
  return stop;
}

function end(its) {
  its.state.end = performance.now();
  its.view.stop();
  if (its.view.placed && its.forest.nodes.size) {
    its.forest.complete(its.view.placed());
    its.state.pictures = true;
  }
  showProgress(its);
  comeIntoView();
  its.panel.setAttribute('aria-busy', 'false');
  const rows = its.view.rows();
  for (const copy of its.panel.querySelectorAll('[data-copy]')) {
    copy.disabled = its.view instanceof LatestView || (copy.dataset.copy !== 'command' && !rows.length);
  }
  const hadFocus = document.activeElement === $('stop');
  $('run').disabled = false;
  $('stop').hidden = true;
  if (hadFocus) $('run').focus();
  running = null;
  plan();
  if (its.state.problem) {
    showError(its.state.problem);
    if (!its.state.done) {  // nothing came: nothing is shown but why
      its.find('.progress').hidden = its.find('.forest').hidden = true;
      its.find('.output').replaceChildren();
      its.find('.welcome').hidden = false;
    }
  }
  announce(its.state.stopped ? `Stopped, with ${number(its.state.done)} of ${Number.isNaN(its.view.total) ? 'the answers' : count(its.view.total, its.noun)}`
    : its.state.problem ? '' : `Done: ${count(its.state.done, its.noun)}`);
}

// What is to be done, or nothing, and then the page says why.
function prepare(name, toFile) {
  showError(null);
  if ($('paste').value.trim()) documents.takePasted();
  try {
    return request(name, toFile);
  } catch (error) {
    showError(error);
    (documents.empty ? $('paste') : name !== 'extract' ? $('questions') : $('schema-text')).focus();
    return null;
  }
}

async function start() {
  if (running) return;
  const name = task, its = tasks[name];
  if (isLarge(name)) return startToFile();
  const body = prepare(name, false);
  if (!body) return;
  const stop = begin(name, body, new views[name](its.find('.output'), {documents: body.documents ?? [], questions: body.questions ?? [], names: schema.names}));
  const frames = new Frames(items => takeEvents(its, items), () => showProgress(its)), clock = setInterval(() => showFigures(its), 200);
  try {
    for await (const event of events(its.path, {...body, forest: true}, stop.signal)) frames.add(event);
  } catch (error) {
    if (stop.signal.aborted) its.state.stopped = true;
    else its.state.problem = error;
  }
  await frames.finish();
  clearInterval(clock);
  end(its);
}

// Rows go into a file, a round of documents after another; the page keeps none.
async function startToFile() {
  if (running) return;
  const name = task, its = tasks[name], body = prepare(name, true);
  if (!body) return;
  const csv = $('file-form').value === 'csv', columns = csvColumns(name, schema.names);
  const file = await openRowFile(`${name === 'extract' ? 'values' : 'answers'}.${csv ? 'csv' : 'jsonl'}`).catch(error => { showError(error); });
  if (!file || running) return;
  const stop = begin(name, body, new LatestView(its.find('.output'), file.name)), {state} = its;
  const frames = new Frames(items => takeEvents(its, items), () => showProgress(its)), clock = setInterval(() => showFigures(its), 200);
  const refusedBefore = documents.refused.length;
  const answered = row => frames.add({type: 'answer', row});
  const take = async rows => {
    for (const row of rows) await file.write(csv ? csvRow(row, columns) : JSON.stringify(row) + '\n');
  };
  try {
    if (csv) await file.write(csvHeader(columns));
    if (name === 'experts') {
      for await (const event of events(its.path, body, stop.signal)) {
        if (event.type === 'error') throw new Error(event.error?.message);
        if (event.type === 'answer') { answered(event.row); await take([event.row]); }
      }
    } else {
      const source = (async function* () { for await (const document of documents.stream()) yield documentOf(name, document); })();
      await runRounds({path: its.path, body, documents: source, signal: stop.signal, answered,
        limits: {answers: health.max_answers, bytes: health.max_body},
        take: async (rows, round) => { state.documents = (state.documents ?? 0) + round.length; await take(rows); }});
    }
  } catch (error) {
    if (stop.signal.aborted) state.stopped = true;
    else state.problem = error;
  }
  await frames.finish();
  clearInterval(clock);
  try {
    await file.close();
  } catch (error) {
    state.problem ??= new Error(`The file cannot be written: ${inWords(error)}`);
  }
  if (documents.refused.length > refusedBefore) documents.draw();
  end(its);
}

async function copyAs(name, copy) {
  const its = tasks[name], form = copy.dataset.copy;
  const text = form === 'jsonl' ? asJsonLines(its.view.rows()) : form === 'csv' ? asCsv(its.view.rows())
    : asCommand(name, {...its.body, model: its.body.model ?? health.task_adapters[its.name]}, health.model);
  try {
    await toClipboard(text);
  } catch (error) {
    showError(new Error(`Nothing was copied: ${inWords(error)}`));
    return;
  }
  const label = copy.textContent;
  copy.textContent = 'Copied';
  announce(`${label} copied`);
  setTimeout(() => { copy.textContent = label; }, 1500);
}

function askForKey() {
  if (!$('key-dialog').open) $('key-dialog').showModal();
  $('key').focus();
}

async function meet() {
  try {
    health = {...health, ...await getJson('health')};
    $('model').textContent = health.model;
    $('key-open').hidden = !health.keys;
    for (const tab of document.querySelectorAll('[role=tab]')) {
      const needed = {experts: 'rag'}[tab.dataset.task] ?? tab.dataset.task;
      tab.hidden = Boolean(health.tasks) && !health.tasks.includes(needed);
    }
    showAdapters();
    plan();
  } catch (error) {
    showError(error);
  }
}

const tabs = [...document.querySelectorAll('[role=tab]')];
for (const tab of tabs) {
  tab.onclick = () => { location.hash = tab.dataset.task; };
  tab.onkeydown = event => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key], shown = tabs.filter(t => !t.hidden);
    if (!step) return;
    const next = shown[(shown.indexOf(tab) + step + shown.length) % shown.length];
    location.hash = next.dataset.task;
    next.focus();
  };
}
const fromAddress = () => turnTo(tasks[location.hash.slice(1)] ? location.hash.slice(1) : 'ask');
addEventListener('hashchange', fromAddress);
$('input').onsubmit = event => { event.preventDefault(); start(); };
$('to-file').onclick = startToFile;
$('stop').onclick = () => running?.stop.abort();
addEventListener('keydown', event => {
  if (event.key === 'Enter' && (event.ctrlKey || event.metaKey) && !document.querySelector('dialog[open]')) { event.preventDefault(); start(); }
  if (event.key === 'Escape' && running && !document.querySelector('dialog[open]')) running.stop.abort();
});
for (const id of ['questions', 'paste']) $(id).oninput = plan;
documents.changed = plan;
schema.changed = plan;
documents.fail = showError;
$('key-open').onclick = askForKey;
$('key-dialog').querySelector('form').onsubmit = event => {
  if (event.submitter?.value === 'save') {
    useKey($('key').value);
    if (refused) setTimeout(start);  // once the dialog is closed
  }
  refused = false;
  $('key').value = '';
  $('key-open').textContent = hasKey() ? 'API key ✓' : 'API key';
};
$('theme').onclick = () => {
  const root = document.documentElement, dark = (root.dataset.theme ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light')) === 'dark';
  root.dataset.theme = dark ? 'light' : 'dark';
};
fromAddress();
meet();
