// The scene of a running play session.
import { parseSpec } from "../format.js";
import { momentsOf, moveOf, sceneOf, wordOf } from "../trial/model.js";

// The scene as it stands, seen by the person where one plays; null before anything happened.
export function sceneNow(state, names, pick) {
  if (state.observation) return ownScene(state, names, pick);
  const trial = asTrial(state, names);
  const moments = momentsOf(trial).filter(
    (moment) => moment.kind === "turn" || (moment.kind === "end" && trial.episodes[moment.episode].isOver),
  );
  return moments.length ? sceneOf(trial, moments.at(-1), state.seat) : null;
}

function ownScene(state, names, pick) {
  const seen = state.observation;
  const turns = state.turns.filter((turn) => turn.episode === state.episode);
  const offer = { seat: state.seat, actions: seen.actions, ids: seen.ids };
  return {
    world: parseSpec(state.world),
    names,
    agentSeat: state.seat,
    facts: seen.facts,
    text: seen.text,
    mover: state.seat,
    move: null,
    moves: turns.map(moveOf),
    known: names.map((_, seat) => (seat === state.seat ? seen.facts : null)),
    everything: null,
    result: null,
    seenBy: state.seat,
    word: (seat, id) => wordOf([offer, ...state.turns], seat, id),
    pick,
    offered: seen.ids.map((id, at) => [id, seen.actions[at]]),
  };
}

// What was played so far in the form of a trial; an episode without an end is one that goes on.
export function asTrial(state, names) {
  const last = Math.max(
    -1,
    ...state.turns.map((turn) => turn.episode),
    ...state.results.map((result) => result.episode),
  );
  const episodes = Array.from({ length: last + 1 }, (_, episode) => {
    const result = state.results.find((each) => each.episode === episode) ?? { facts: null };
    const turns = state.turns.filter((turn) => turn.episode === episode);
    return { turns, result: { forfeited_by: null, ...result }, isOver: Boolean(result.facts) };
  });
  const task = { world: state.world, seat: state.seat ?? 0, episodes: state.episodes };
  return { task, names, episodes, reflections: [] };
}
