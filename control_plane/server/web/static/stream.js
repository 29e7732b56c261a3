// One stream of changes for any number of listeners, which come and go; it goes on where it was.
const NAMES = ["run", "event", "pod", "hypothesis", "schedule", "group", "reset"];

export class Stream {
  #listeners = new Map(); // listener -> { topics, tell }
  #source = null;
  #topics = "";
  #place = "";
  #isBehind = false; // somebody came who knows less than what was already told
  #pending = 0;

  join(listener, topics, since, tell) {
    this.#listeners.set(listener, { topics: new Set(topics), tell });
    // Places sort: from the earlier of both on, and what somebody hears twice changes nothing twice.
    this.#isBehind ||= Boolean(since && since < this.#place);
    if (since && (!this.#source || since < this.#place)) this.#place = since;
    this.#soon();
    if (this.#source?.readyState === EventSource.OPEN) tell({ name: "open" });
  }

  leave(listener) {
    this.#listeners.delete(listener);
    this.#soon();
  }

  // Several tabs that open at once make one new connection, not one each.
  #soon() {
    clearTimeout(this.#pending);
    this.#pending = setTimeout(() => this.#connect(), 20);
  }

  #connect() {
    const wanted = [...new Set([...this.#listeners.values()].flatMap((each) => [...each.topics]))].sort();
    const topics = wanted.map((each) => `topic=${encodeURIComponent(each)}`).join("&");
    const isAlive = this.#source && this.#source.readyState !== EventSource.CLOSED;
    if (isAlive && topics === this.#topics && !this.#isBehind) return;
    this.#source?.close();
    this.#source = null;
    this.#isBehind = false;
    this.#topics = topics;
    if (!topics) return;
    const source = new EventSource(`/live?${topics}&since=${encodeURIComponent(this.#place)}`);
    this.#source = source;
    source.onopen = () => this.#tell({ name: "open" });
    source.onerror = () => {
      this.#tell({ name: "lost" });
      // Cut off, a source tries again by itself; refused, as by a server that is starting, it does not.
      if (source.readyState === EventSource.CLOSED) setTimeout(() => this.#connect(), 3000);
    };
    source.addEventListener("at", (message) => this.#reach(message.lastEventId));
    NAMES.forEach((name) => source.addEventListener(name, (message) => {
      if (name === "reset") this.#reach(message.lastEventId);
      this.#tell({ name, ...JSON.parse(message.data) });
    }));
  }

  // Not while somebody behind waits for the connection that begins where they are.
  #reach(place) {
    if (!this.#isBehind) this.#place = place;
  }

  #tell(message) {
    this.#listeners.forEach(({ topics, tell }) => {
      if (!message.topics || message.topics.some((each) => topics.has(each))) tell(message);
    });
  }
}
