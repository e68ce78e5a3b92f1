// The form for a new play session: world, opponents, seat.
import { h, renew, show } from "../dom.js";
import { worldTitle } from "../format.js";
import { select } from "../parts.js";

const SURPRISE = "surprise";
const ANY = "any game";
const TRAINED = "agents trained here";
const UNTRAINED =
  "No agent here was trained on this world, or its weights were not kept. One that was can be played too: mage train.";

// A form whose answer goes to `start({world, level, opponents, player, episodes, seat, isHidden})`; of the opponents the
// first that can play is meant. In a world of one seat there are none, and the level may be left to the seed.
export function playForm(choices, start) {
  const wish = { world: "rps", level: "", opponent: SURPRISE, player: "person", episodes: 3, seat: 0 };
  const fields = h("div", { class: "form" });
  const problem = h("p", { class: "bad", role: "alert" });
  const begin = h("button", { class: "main", type: "submit" }, "Start");
  const form = h(
    "form",
    { class: "card", onsubmit: submit },
    fields,
    h("p", {}, begin),
    problem,
  );
  const worldText = text("world in full", (value) => (wish.world = value));
  const opponentText = text("opponent in full", (value) => (wish.opponent = value));
  const levelText = text("level", (value) => (wish.level = value.trim()));

  function paint() {
    const listed = listedWorlds(choices).find((each) => each.spec === nameOf(wish.world));
    const isRegistered = (choices.worlds ?? []).includes(listed);
    const rivals = opponentsOf(choices, nameOf(wish.world));
    const named = rivals.map((each) => [each.spec, each.title, each.group]);
    const numSeats = listed?.seats ?? 2;
    const hasTrained = rivals.some((each) => each.group === TRAINED);
    if (wish.seat >= numSeats) wish.seat = 0;
    const seats = Array.from({ length: numSeats }, (_, seat) => [
      String(seat),
      seat === 0 ? "the first seat" : `seat ${seat + 1}`,
    ]);
    worldText.value = wish.world;
    opponentText.value = wish.opponent === SURPRISE ? "" : wish.opponent;
    const known = rivals.find((each) => each.spec === nameOf(wish.opponent) || each.spec === wish.opponent);
    const hasSettings = known?.parameters && known.parameters !== "no parameters";
    const isAlone = numSeats === 1;
    const theOpponent = [
      row(
        select("Opponent", [[SURPRISE, "a surprise, told at the end"], ...named], wish.opponent, change("opponent")),
        hasSettings || isRegistered ? inFull("with settings", opponentText) : null,
      ),
      about(
        known
          ? `${known.about} ${hasSettings ? `Settings: ${known.parameters}.` : ""}`
          : "A script, a search or a solver that can play this world. Who it was is told when all episodes are over.",
      ),
    ];
    const theLevel = [
      h("label", { class: "field" }, h("span", { class: "label" }, "Level"), levelText),
      about("What is hidden in all episodes. Without a level it is drawn, and told when all episodes are over."),
    ];
    renew(
      fields,
      row(select("World", worldsOf(choices), nameOf(wish.world), pickWorld), inFull("with settings", worldText)),
      about(listed ? `${listed.about} Settings: ${listed.parameters}.` : "One of OpenSpiel's games, in its own words."),
      isAlone ? theLevel : theOpponent,
      hasTrained ? null : about(UNTRAINED),
      isAlone
        ? null
        : select(wish.player === "person" ? "You take" : "It takes", seats, String(wish.seat), change("seat", Number)),
      select(
        "Episodes",
        [1, 2, 3, 5, 8].map((num) => [String(num), String(num)]),
        String(wish.episodes),
        change("episodes", Number),
      ),
      select(
        "Who plays",
        [["person", "I do"], ...named.map(([spec, title, group]) => [spec, `${title}, and I watch`, group])],
        wish.player,
        change("player"),
      ),
    );
  }

  function pickWorld(value) {
    Object.assign(wish, { world: value, level: "", opponent: SURPRISE, player: "person" });
    levelText.value = "";
    paint();
  }

  function change(name, convert = (value) => value) {
    return (value) => {
      wish[name] = convert(value);
      paint();
    };
  }

  async function submit(event) {
    event.preventDefault();
    show(problem);
    const listed = listedWorlds(choices).find((each) => each.spec === nameOf(wish.world));
    const isAlone = listed?.seats === 1;
    const isHidden = !isAlone && wish.opponent === SURPRISE;
    const opponents = isAlone
      ? [null]
      : isHidden
      ? shuffled(
          opponentsOf(choices, nameOf(wish.world))
            .filter((each) => each.isScript)
            .map((each) => each.spec),
        )
        : [wish.opponent];
    begin.disabled = true;
    try {
      await start({ ...wish, opponents, isHidden });
    } catch (error) {
      show(problem, error.message);
    } finally {
      begin.disabled = false;
    }
  }

  paint();
  return form;
}

function text(label, typed) {
  const box = h("input", {
    type: "text",
    "aria-label": label,
    title: `${label}, with its settings`,
    spellcheck: "false",
    oninput: () => typed(box.value),
  });
  return box;
}

function inFull(words, box) {
  return h("label", { class: "field" }, h("span", { class: "quiet" }, words), box);
}

function row(...children) {
  return h("div", { class: "controls" }, children);
}

function about(words) {
  return h("p", { class: "quiet" }, words);
}

function nameOf(spec) {
  return spec.split(/[(:]/)[0].trim();
}

// All worlds of which more than the name is known.
function listedWorlds(choices) {
  return [...choices.games, ...(choices.worlds ?? [])];
}

function worldsOf(choices) {
  return [
    ...(choices.worlds ?? []).map((each) => [each.spec, worldTitle(each.spec), "registered worlds"]),
    ...choices.games.map((each) => [each.spec, worldTitle(each.spec), "games with words of their own"]),
    ...(choices.other_games ?? []).map((name) => [name, worldTitle(name), "all other games of OpenSpiel"]),
  ];
}

// Trained agents of this world first, then all other opponents that can play it.
function opponentsOf(choices, world) {
  const isListed = listedWorlds(choices).some((each) => each.spec === world);
  const trained = choices.checkpoints
    .filter((each) => nameOf(each.world) === world)
    .map((each) => ({
      spec: each.spec,
      title: `${each.name} after ${each.step} steps`,
      about: `A trained agent (${each.model}): it remembers your episodes (memory: ${each.memory}).`,
      parameters: "",
      isScript: false,
      group: TRAINED,
    }));
  const others = choices.opponents
    .filter((each) => (isListed ? each.fits.includes(world) : each.games === ANY))
    .map((each) => ({ ...each, title: each.spec, isScript: !each.spec.startsWith("scripted:") }))
    .map((each) => ({ ...each, group: each.isScript ? "scripts, search and solvers" : "scripted models that keep notes" }));
  return [...(choices.can_play_models ? trained : []), ...others];
}

function shuffled(list) {
  const mixed = list.map((each) => [Math.random(), each]).sort((a, b) => a[0] - b[0]);
  return mixed.map(([, each]) => each);
}
