// A trial as a row of moments: every turn, the end of every episode, and what lies between two episodes.
import { parseSpec } from "../format.js";

export const EVERYTHING = null;

// moments: [{index, episode, kind: "turn" | "end" | "between", turn, number, name}]; `name` is what an address has.
export function momentsOf(trial) {
  const moments = [];
  const add = (moment) => moments.push({ ...moment, index: moments.length });
  trial.episodes.forEach((episode, index) => {
    episode.turns.forEach((turn, number) =>
      add({ kind: "turn", episode: index, number, turn, name: `${index + 1}.${number + 1}` }),
    );
    add({ kind: "end", episode: index, name: `${index + 1}.end` });
    const notes = reflectionsAfter(trial, index);
    const goesOn = index + 1 < trial.episodes.length;
    if (goesOn || notes.length) add({ kind: "between", episode: index, notes, name: `${index + 1}.notes` });
  });
  return moments;
}

// The reflections that the agent wrote after an episode.
export function reflectionsAfter(trial, episode) {
  return trial.reflections.filter((note) => note.episode === episode);
}

// The moment of that name, or the first.
export function momentNamed(moments, name) {
  return moments.find((moment) => moment.name === name) ?? moments[0];
}

// What a drawing needs at a moment; `draw/registry.js` says what is in it.
export function sceneOf(trial, moment, seenBy) {
  const episode = trial.episodes[moment.episode];
  const isOver = moment.kind !== "turn";
  const turns = isOver ? episode.turns : episode.turns.slice(0, moment.number + 1);
  const moves = turns.map(moveOf);
  const known = trial.names.map((_, seat) => turns.findLast((turn) => turn.seat === seat)?.facts ?? null);
  return {
    world: parseSpec(trial.task.world),
    names: seatNames(trial, seenBy),
    agentSeat: trial.task.seat,
    facts: isOver ? null : moment.turn.facts,
    text: isOver ? "" : moment.turn.observation,
    mover: isOver ? null : moment.turn.seat,
    move: isOver ? null : moves[moves.length - 1],
    moves,
    known,
    everything: episode.result.facts,
    result: isOver ? episode.result.facts : null,
    seenBy,
    word: (seat, id) => wordOf(episode.turns, seat, id),
    pick: null,
  };
}

// Who sits where; the agent is never told its opponent's name, so in its eyes there is none.
export function seatNames(trial, seenBy) {
  return trial.names.map((name, seat) =>
    seenBy === null || seat === seenBy ? name : trial.names.length > 2 ? `player ${seat + 1}` : "opponent",
  );
}

// The largest advantage of the trial, by size: what its colours are measured by; 0 where there is none.
export function largestAdvantage(trial) {
  const turns = [...trial.episodes.flatMap((episode) => episode.turns), ...trial.reflections];
  const tokens = turns.flatMap((turn) => turn.calls.flatMap((call) => call.tokens));
  return tokens.reduce((most, token) => Math.max(most, Math.abs(token.advantage ?? 0)), 0);
}

// The probability with which the agent chose its move: the product over its tokens; null where there is no model, or
// where it wrote freely, for the same move can then be said in many ways.
export function probabilityOf(turn) {
  const call = turn.calls[turn.calls.length - 1];
  if (!call || turn.action === null || call.tokens.some((token) => token.num_allowed === null)) return null;
  return Math.exp(call.tokens.reduce((sum, token) => sum + token.logprob, 0));
}

export function moveOf(turn) {
  const at = turn.actions.indexOf(turn.action);
  return { seat: turn.seat, action: turn.action, id: at < 0 ? null : (turn.ids?.[at] ?? at), reward: turn.reward };
}

export function wordOf(turns, seat, id) {
  for (const turn of turns.filter((each) => each.seat === seat).concat(turns)) {
    const at = turn.ids ? turn.ids.indexOf(id) : id;
    if (turn.actions[at] !== undefined) return turn.actions[at];
  }
  return String(id);
}
