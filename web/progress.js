// A run as it goes on: events of the server, and the figures above its answers. `its` is a task with the view and the state
// of its last run.
import {announce, count, make, number} from './dom.js';

// The figures above the answers.
export function showFigures(its) {
  const {view, state} = its, done = state.done, seconds = ((state.end ?? performance.now()) - state.begin) / 1000;
  const bar = its.find('progress'), all = Number.isNaN(view.total);  // how many there are is known at the end
  if (all && !state.end) bar.removeAttribute('value');
  else {
    bar.max = all ? Math.max(1, done) : view.total;
    bar.value = done;
  }
  const share = state.saved + state.computed > 0 ? Math.round(100 * state.saved / (state.saved + state.computed)) : 0;
  const figures = [
    [`${its.noun}s` + (state.stopped ? ', then stopped' : ''), all || done === view.total ? number(done) : `${number(done)} of ${number(view.total)}`],
    ['seconds', seconds.toFixed(1)],
    ...(state.computed === undefined ? [] : [['prompt tokens computed', number(state.computed)], ['saved by sharing', `${number(state.saved)}  (${share} %)`]]),
    ...(state.failed ? [['failed', number(state.failed)]] : []),
    ...(state.documents ? [['documents asked', number(state.documents)]] : []),
  ];
  its.find('.figures').replaceChildren(...figures.map(([name, value]) => make('div', '', make('dt', '', name), make('dd', '', value))));
}

// What the server said, into the view and the state of a task.
export function takeEvents(its, items) {
  const {view, state} = its;
  for (const event of items) {
    if (event.type === 'token') view.token(event);
    else if (event.type === 'answer') {
      const ended = view.answer(event);
      state.done += ended;
      if (event.row.error) state.failed += ended;
    } else if (event.type === 'forest') {
      its.forest.take(event);
      state.pictures = true;
    } else if (event.type === 'error') state.problem = new Error(event.error?.message ?? 'The server gave up on this.');
    if (event.type === 'forest' || event.type === 'done') {
      state.saved = event.saved_tokens ?? state.saved;
      state.computed = event.computed_tokens ?? state.computed;
    }
  }
}

// Once a picture. A forest of thousands takes a while to draw, and is drawn the less often.
export function showProgress(its) {
  const {view, state} = its, now = performance.now();
  if (state.pictures && (state.end || now > state.nextForest)) {
    its.forest.draw();
    state.pictures = false;
    state.nextForest = performance.now() + 10 * (performance.now() - now);
  }
  if (now - state.told > 4000 && state.done !== view.total && !state.end) {
    announce(Number.isNaN(view.total) ? count(state.done, its.noun) : `${number(state.done)} of ${count(view.total, its.noun)}`);
    state.told = now;
  }
  showFigures(its);
}
