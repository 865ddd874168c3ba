// The page of `banyan serve`: one set of documents, three things to do with them, a run at a time.
import {$, Frames, announce, count, inWords, make, number} from './dom.js';
import {AnswersView} from './answers.js';
import {Documents} from './documents.js';
import {ExpertsView} from './experts.js';
import {ForestView} from './forest.js';
import {SchemaEditor} from './schema.js';
import {ValuesView} from './values.js';
import {asCommand, asCsv, asJsonLines, toClipboard} from './copy.js';
import {events, getJson, hasKey, useKey} from './stream.js';
import {examples} from './examples.js';

const documents = new Documents(), schema = new SchemaEditor();
let health = {model: '', keys: false, index: false}, task = 'ask', running = null, refused = false;  // refused: a run for want of a key

const tasks = {
  ask: {
    verb: 'Ask', path: 'v1/ask', View: AnswersView, noun: 'answer', fields: [], title: 'One context, many answers',
    about: 'Every document is read once, whatever is asked of it; all answers are written together, and each is exactly what it would be alone.',
  },
  extract: {
    verb: 'Extract', path: 'v1/extract', View: ValuesView, noun: 'document', fields: ['category'], words: {question: 'attributes', answer: 'value'}, title: 'All values at once, always valid',
    about: 'Say what to look for. The values of a document are written side by side, each held to its type, with the place where it stands.',
  },
  experts: {
    verb: 'Ask the experts', path: 'v1/rag', View: ExpertsView, noun: 'answer', fields: ['title', 'score'], title: 'Who wrote which word',
    about: 'Every document is an expert that has read nothing else. They write one answer together, and each word is owed to one of them.',
  },
};

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

function questions() {
  return $('questions').value.split('\n').map(line => line.trim()).filter(Boolean);
}

const pick = (object, names) => Object.fromEntries(names.filter(name => object[name] !== undefined).map(name => [name, object[name]]));

function showExample(name) {
  const example = examples[name];
  documents.set(example.documents);
  if (example.questions) $('questions').value = example.questions.join('\n');
  if (example.schema) schema.set(example.schema);
  $('relevance').value = example.relevance ?? '';
  plan();
}

// What is asked for, as the server takes it. Throws in words.
function request(name) {
  const body = {}, option = id => $(id).value.trim();
  if (documents.all.length) body.documents = documents.all.map(document => pick(document, ['id', 'text', ...tasks[name].fields]));
  else if (!(name === 'experts' && health.index)) throw new Error('There is no document. Paste a text, or drop a file.');
  if (name === 'extract') body.schema = schema.value;
  else if (!questions().length) throw new Error('There is no question. Write one a line.');
  else body.questions = questions();
  if (option('instruction')) body.instruction = option('instruction');
  if (option('max-tokens')) body.max_tokens = Number(option('max-tokens'));
  if (name === 'ask' && option('copy')) body.copy = option('copy') === 'true';
  if (name === 'extract' && option('values')) body.values = option('values');
  if (name === 'experts' && option('relevance')) body.relevance = option('relevance');
  if (name === 'experts' && option('method')) body.method = option('method');
  return body;
}

// How much there is to do, beside the button.
function plan() {
  const d = documents.all.length + ($('paste').value.trim() ? 1 : 0), q = questions().length;
  $('plan').textContent = task === 'extract' ? (d ? count(d, 'document') : '')
    : task === 'experts' ? (q ? `${count(q, 'answer')} from ${d ? count(d, 'document') : 'the index'}` : '')
    : d && q ? `${number(d)} × ${number(q)} = ${count(d * q, 'answer')}` : '';
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
  for (const option of document.querySelectorAll('[data-only]')) option.hidden = option.dataset.only !== name;
  $('run').textContent = tasks[name].verb;
  showError(null);
  plan();
}

// The figures above the answers.
function showFigures(its) {
  const {view, state} = its, done = state.done, seconds = ((state.end ?? performance.now()) - state.begin) / 1000;
  const bar = its.find('progress');
  bar.max = view.total;
  bar.value = done;
  const share = state.saved + state.computed > 0 ? Math.round(100 * state.saved / (state.saved + state.computed)) : 0;
  const figures = [
    [`${its.noun}s` + (state.stopped ? ', then stopped' : ''), done === view.total ? number(done) : `${number(done)} of ${number(view.total)}`],
    ['seconds', seconds.toFixed(1)],
    ...(state.computed === undefined ? [] : [['prompt tokens computed', number(state.computed)], ['saved by sharing', `${number(state.saved)}  (${share} %)`]]),
    ...(state.failed ? [['failed', number(state.failed)]] : []),
  ];
  its.find('.figures').replaceChildren(...figures.map(([name, value]) => make('div', '', make('dt', '', name), make('dd', '', value))));
}

function takeEvents(its, items) {
  const {view, state} = its;
  let pictures = 0;
  for (const event of items) {
    if (event.type === 'token') view.token(event);
    else if (event.type === 'answer') {
      const ended = view.answer(event);
      state.done += ended;
      if (event.row.error) state.failed += ended;
    } else if (event.type === 'forest') {
      its.forest.take(event);
      ++pictures;
    } else if (event.type === 'error') state.problem = new Error(event.error?.message ?? 'The server gave up on this.');
    if (event.type === 'forest' || event.type === 'done') {
      state.saved = event.saved_tokens ?? state.saved;
      state.computed = event.computed_tokens ?? state.computed;
    }
  }
  if (pictures) its.forest.draw();
  if (performance.now() - state.told > 4000 && state.done < view.total) {
    announce(`${number(state.done)} of ${count(view.total, its.noun)}`);
    state.told = performance.now();
  }
  showFigures(its);
}

async function start() {
  if (running) return;
  showError(null);
  if ($('paste').value.trim()) documents.takePasted();
  const name = task, its = tasks[name];
  let body;
  try {
    body = request(name);
  } catch (error) {
    showError(error);
    (name !== 'extract' && documents.all.length ? $('questions') : documents.all.length ? $('schema-text') : $('paste')).focus();
    return;
  }
  const stop = new AbortController();
  running = {stop};
  const now = performance.now();
  its.body = body;
  its.state = {done: 0, failed: 0, saved: 0, begin: now, told: now};
  its.view = new its.View(its.find('.output'), {documents: body.documents ?? [], questions: body.questions ?? [], names: schema.names});
  its.forest?.close();
  its.find('.forest').hidden = true;
  its.forest = new ForestView(its.find('.forest'), body.documents ?? [], its.words);
  its.find('.welcome').hidden = true;
  its.find('.progress').hidden = false;
  its.panel.setAttribute('aria-busy', 'true');
  for (const copy of its.panel.querySelectorAll('[data-copy]')) copy.disabled = copy.dataset.copy !== 'command';
  $('run').disabled = true;
  $('stop').hidden = false;
  if (matchMedia('(max-width: 860px)').matches) $('results').scrollIntoView({behavior: matchMedia('(prefers-reduced-motion: reduce)').matches ? 'auto' : 'smooth'});
  announce(`Working on ${count(its.view.total, its.noun)}`);
  const frames = new Frames(items => takeEvents(its, items)), clock = setInterval(() => showFigures(its), 200);
  showFigures(its);
  try {
    for await (const event of events(its.path, {...body, forest: true}, stop.signal)) frames.add(event);
  } catch (error) {
    if (stop.signal.aborted) its.state.stopped = true;
    else its.state.problem = error;
  }
  frames.finish();
  clearInterval(clock);
  its.state.end = performance.now();
  its.view.stop();
  showFigures(its);
  its.panel.setAttribute('aria-busy', 'false');
  const rows = its.view.rows();
  for (const copy of its.panel.querySelectorAll('[data-copy]')) copy.disabled = copy.dataset.copy !== 'command' && !rows.length;
  const hadFocus = document.activeElement === $('stop');
  $('run').disabled = false;
  $('stop').hidden = true;
  if (hadFocus) $('run').focus();
  running = null;
  if (its.state.problem) {
    showError(its.state.problem);
    if (!rows.length) {  // nothing came: nothing is shown but why
      its.find('.progress').hidden = its.find('.forest').hidden = true;
      its.find('.output').replaceChildren();
      its.find('.welcome').hidden = false;
    }
  }
  announce(its.state.stopped ? `Stopped, with ${number(its.state.done)} of ${count(its.view.total, its.noun)}`
    : its.state.problem ? '' : `Done: ${count(its.state.done, its.noun)}`);
}

async function copyAs(name, copy) {
  const its = tasks[name], form = copy.dataset.copy;
  const text = form === 'jsonl' ? asJsonLines(its.view.rows()) : form === 'csv' ? asCsv(its.view.rows())
    : asCommand(name, its.body, health.model);
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
