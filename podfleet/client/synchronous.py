"""The client for programs that wait for each answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, Unpack

from events.answers.access.audit_log import AuditEntry
from events.answers.answer import Listing
from events.answers.kinds.results import ResultRow
from events.answers.logs import LoggedEvent
from events.answers.runs import Run
from podfleet.client import endpoints
from podfleet.client.call import Call, Lines, Malformed, decoded, is_paged, named_as, refused
from podfleet.client.following import LOG, Follower, Happened, is_over
from podfleet.client.options import StartOptions
from podfleet.client.problems import Refused
from podfleet.client.transport import Connected, warn_of_damage

if TYPE_CHECKING:
    from podfleet.client.programs import Params, Table

A = TypeVar("A")
P = ParamSpec("P")

PAGES_MAX: Final = 10_000  # of one list; longer, it has no end


def _asks(call: Callable[P, Call[A]]) -> Callable[Concatenate[Client, P], A]:
    """Return the method that makes a call."""

    def method(self: Client, /, *arguments: P.args, **named: P.kwargs) -> A:
        return self.ask(call(*arguments, **named))

    return named_as(call, method)


def _lists(call: Callable[P, Call[Listing[A]]]) -> Callable[Concatenate[Client, P], Iterator[A]]:
    """Return the method that yields the items of a list, asked for page by page of `limit` items."""

    def method(self: Client, /, *arguments: P.args, **named: P.kwargs) -> Iterator[A]:
        for _ in range(PAGES_MAX):
            page = self.ask(call(*arguments, **named))
            warn_of_damage(page)
            yield from page.items
            if page.next is None:
                return
            if not is_paged(call):
                raise self.target.foreign("a list has pages that this version does not know")
            named["after"] = page.next
        raise self.target.foreign(f"a list has more than {PAGES_MAX} pages")

    return named_as(call, method)


class Client(Connected):
    """A control plane. Its methods raise `Refused`, `Unreachable` and `BadAddress`; lists come page by page.

    It keeps its connections, and is closed by `close` or at the end of a `with` block. `timeout_s` bounds
    each wait for the control plane, `transport` is one of httpx.
    """

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; another request opens them again."""
        if getattr(self, "_http", None) is not None:
            self._http.close()
            self._http = None

    @property
    def http(self) -> Any:
        """The open connections, with the key."""
        if self._http is None:
            import httpx

            self._http = httpx.Client(**self.target.options(), transport=self._transport)
        return self._http

    def ask(self, call: Call[A]) -> A:
        """Send a request and return its answer."""
        with self.sent(call) as response:
            try:
                content = self.target.whole(response)
                return call.read(response.status_code, content, response.headers.get("location"))
            except Malformed as error:
                raise self.target.foreign(error) from error

    def lines(self, call: Call[A]) -> Iterator[A]:
        """Send a request and yield the lines of its answer, which may be of any length."""
        with self.sent(call) as response:
            try:
                if response.is_error:
                    raise refused(response.status_code, self.target.whole(response))
                lines = Lines()
                for piece in response.iter_bytes():
                    for line in lines.of(piece):
                        yield decoded(line, call.answer)
                if lines.rest:
                    yield decoded(lines.rest, call.answer)
            except Malformed as error:
                raise self.target.foreign(error) from error

    @contextmanager
    def sent(
        self,
        call: Call[Any],
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        content: Iterable[bytes] | None = None,
    ) -> Iterator[Any]:
        """Send a request, with a `content` of any length; within the block its answer of httpx is read."""
        import httpx

        try:
            with self.http.stream(
                call.method,
                call.address,
                params=call.parameters,
                json=call.body,
                content=content,
                headers={**call.headers, **(headers or {})},
                timeout=timeout_s or self.target.timeout_s,
            ) as response:
                yield response
        except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
            raise self.target.bad(error) from error
        except httpx.HTTPError as error:
            raise self.target.silent(error) from error

    def events(self, run_id: str, **wanted: Any) -> Iterator[LoggedEvent]:
        """Yield the log of a run, page by page; what is `wanted` are the parameters of `endpoints.events`."""
        while True:
            page = self.ask(endpoints.events(run_id, **wanted))
            yield from page.items
            if page.next is None:
                return
            wanted["after"] = page.next

    def logs(self, run_id: str, *, level: str | None = None) -> Iterator[LoggedEvent]:
        """Yield the lines that a run has logged, the oldest first; of one `level` where that is given."""
        return self.events(run_id, type=LOG, level=level, order="oldest")

    def watch(self, run_id: str) -> Iterator[Run]:
        """Yield a run as it is, again whenever it has changed, and last as it is when it is over."""
        follower = Follower(self, run_id)
        seen: Run | None = None
        for news in follower.news():
            if isinstance(news, Happened):  # what changes the run is told of it, too
                continue
            found = follower.look(endpoints.run(run_id))
            if found != seen:
                yield found
            seen = found
            if is_over(found):
                return

    def export_audit_log(
        self, *, by: str | None = None, key: str | None = None, object: str | None = None
    ) -> Iterator[AuditEntry]:
        """Yield the whole audit log, the oldest entry first."""
        return self.lines(endpoints.export_audit_log(by=by, key=key, object=object))

    def export_results(
        self,
        run_id: str,
        *,
        set: str | None = None,
        sort: str | None = None,
        filters: Sequence[str] = (),
        q: str | None = None,
    ) -> Iterator[ResultRow]:
        """Yield all rows of a result set; the parameters are those of `endpoints.export_results`."""
        return self.lines(endpoints.export_results(run_id, set=set, sort=sort, filters=filters, q=q))

    def pieces(self, call: Call[Any]) -> Iterator[bytes]:
        """Send a request and yield the pieces of its answer, a file of any length."""
        with self.sent(call) as response:
            if response.is_error:
                try:
                    raise refused(response.status_code, self.target.whole(response))
                except Malformed as error:
                    raise self.target.foreign(error) from error
            yield from response.iter_bytes()

    def program(
        self,
        program: str | Sequence[str],
        params: Params | None = None,
        *,
        folder: str | Path | None = ".",
        include: Sequence[str] = (),
        inputs: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Return the specification of a job that runs a program of this machine; its folder is sent.

        A `program` is a script (`train.py`), a module (`pkg.train`), or the words of a command. It has each
        of the `params` as `--NAME VALUE`; in words they are where `{NAME}` stands. `folder` is what is sent
        (None: nothing), `include` adds what git ignores there. `inputs` and `env` are as a specification has
        them.
        """
        from podfleet.client import programs

        return programs.specification(
            self, program, params, folder=folder, include=include, inputs=inputs, env=env
        )

    def run_program(
        self,
        program: str | Sequence[str],
        params: Params | None = None,
        *,
        folder: str | Path | None = ".",
        include: Sequence[str] = (),
        inputs: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        **options: Unpack[StartOptions],
    ) -> Run:
        """Queue a job that runs a program of this machine, as `program` and `submit` take it."""
        from events.kinds import OF_PROGRAMS

        spec = self.program(program, params, folder=folder, include=include, inputs=inputs, env=env)
        return self.submit(OF_PROGRAMS, spec, idempotency_key=idempotency_key, **options)

    def run_table(self, run_id: str, set: str | None = None) -> Table:
        """Return the rows of a run as dictionaries: those of its first result set, or of `set`."""
        from podfleet.client.programs import row_of

        return [row_of(each) for each in self.export_results(run_id, set=set)]

    def group_table(self, group_id: str, set: str | None = None) -> Table:
        """Return the members of a group as dictionaries, with what varies and their headline numbers.

        With a `set`, these are the rows of that result set of every member.
        """
        from podfleet.client.programs import NO_SET, member_row, row_of_member

        members, found = [*self.group_members(group_id)], []
        if set is None:
            return [member_row(each) for each in members]
        for member in members:
            try:
                found += [row_of_member(member, each) for each in self.export_results(member.run.id, set=set)]
            except Refused as error:
                if error.code != NO_SET:  # it has recorded none so far
                    raise
        return found

    submit = _asks(endpoints.submit)
    check = _asks(endpoints.check)
    estimate = _asks(endpoints.estimate)
    run = _asks(endpoints.run)
    runs = _lists(endpoints.runs)
    run_page = _asks(endpoints.runs)
    boards = _lists(endpoints.boards)
    saved_board = _asks(endpoints.saved_board)
    save_board = _asks(endpoints.save_board)
    remove_board = _asks(endpoints.remove_board)
    board = _asks(endpoints.board)
    history = _asks(endpoints.history)
    compare = _asks(endpoints.compare)
    explain = _asks(endpoints.explain)
    nodes = _asks(endpoints.nodes)
    cancel = _asks(endpoints.cancel)
    rescue = _asks(endpoints.rescue)
    retention_rules = _asks(endpoints.retention_rules)
    retention_preview = _asks(endpoints.retention_preview)
    set_retention_rule = _asks(endpoints.set_retention_rule)
    remove_retention_rule = _asks(endpoints.remove_retention_rule)
    deletion = _asks(endpoints.deletion)
    delete = _asks(endpoints.delete)
    hypothesis_deletion = _asks(endpoints.hypothesis_deletion)
    delete_hypothesis = _asks(endpoints.delete_hypothesis)
    change = _asks(endpoints.change)
    pause = _asks(endpoints.pause)
    resume = _asks(endpoints.resume)
    note = _asks(endpoints.note)
    retry = _asks(endpoints.retry)
    review = _asks(endpoints.review)
    results = _asks(endpoints.results)
    export_keys = _asks(endpoints.export_keys)
    compare_results = _asks(endpoints.compare_results)
    compare_items = _asks(endpoints.compare_items)
    artifacts = _lists(endpoints.artifacts)
    artifact_address = _asks(endpoints.artifact_address)
    propose = _asks(endpoints.propose)
    hypothesis = _asks(endpoints.hypothesis)
    hypotheses = _lists(endpoints.hypotheses)
    launch = _asks(endpoints.launch)
    pods = _lists(endpoints.pods)
    pod = _asks(endpoints.pod)
    pod_telemetry = _asks(endpoints.pod_telemetry)
    pod_attempts = _lists(endpoints.pod_attempts)
    drain = _asks(endpoints.drain)
    restart = _asks(endpoints.restart)
    undrain = _asks(endpoints.undrain)
    cordon = _asks(endpoints.cordon)
    reset_service = _asks(endpoints.reset_service)
    uncordon = _asks(endpoints.uncordon)
    release = _asks(endpoints.release)
    queue = _asks(endpoints.queue)
    ledger = _asks(endpoints.ledger)
    kinds = _lists(endpoints.kinds)
    kind = _asks(endpoints.kind)
    groups = _lists(endpoints.groups)
    group = _asks(endpoints.group)
    group_members = _lists(endpoints.group_members)
    group_importance = _asks(endpoints.group_importance)
    add_group = _asks(endpoints.add_group)
    edit_group = _asks(endpoints.edit_group)
    pause_group = _asks(endpoints.pause_group)
    resume_group = _asks(endpoints.resume_group)
    cancel_group = _asks(endpoints.cancel_group)
    group_again = _asks(endpoints.group_again)
    races = _lists(endpoints.races)
    race = _asks(endpoints.race)
    add_race = _asks(endpoints.add_race)
    check_race = _asks(endpoints.check_race)
    race_samples = _asks(endpoints.race_samples)
    race_again = _asks(endpoints.race_again)
    cancel_race = _asks(endpoints.cancel_race)
    schedules = _lists(endpoints.schedules)
    schedule = _asks(endpoints.schedule)
    add_schedule = _asks(endpoints.add_schedule)
    pause_schedule = _asks(endpoints.pause_schedule)
    remove_schedule = _asks(endpoints.remove_schedule)
    run_schedule = _asks(endpoints.run_schedule)
    upcoming = _asks(endpoints.upcoming)
    preview_cron = _asks(endpoints.preview_cron)
    keys = _lists(endpoints.keys)
    make_key = _asks(endpoints.make_key)
    rotate_key = _asks(endpoints.rotate_key)
    revoke_key = _asks(endpoints.revoke_key)
    models = _lists(endpoints.models)
    model = _asks(endpoints.model)
    set_model = _asks(endpoints.set_model)
    remove_model = _asks(endpoints.remove_model)
    sync_models = _asks(endpoints.sync_models)
    missing_of_trees = _asks(endpoints.missing_of_trees)
    add_tree = _asks(endpoints.add_tree)
    tree = _asks(endpoints.tree)
    tree_chunks = _asks(endpoints.tree_chunks)
    data_sets = _lists(endpoints.data_sets)
    data_set = _asks(endpoints.data_set)
    data_set_version = _asks(endpoints.data_set_version)
    add_data_set = _asks(endpoints.add_data_set)
    remove_data_set_version = _asks(endpoints.remove_data_set_version)
    tasks = _lists(endpoints.tasks)
    task = _asks(endpoints.task)
    create_task = _asks(endpoints.create_task)
    estimate_task = _asks(endpoints.estimate_task)
    update_task = _asks(endpoints.update_task)
    patch_task = _asks(endpoints.patch_task)
    delete_task = _asks(endpoints.delete_task)
    start_task = _asks(endpoints.start_task)
    restart_task = _asks(endpoints.restart_task)
    clone_task = _asks(endpoints.clone_task)
    import_task = _asks(endpoints.import_task)
    export_task = _asks(endpoints.export_task)
    task_experiments = _lists(endpoints.task_experiments)
    secrets = _lists(endpoints.secrets)
    set_secret = _asks(endpoints.set_secret)
    remove_secret = _asks(endpoints.remove_secret)
    rotate_secrets = _asks(endpoints.rotate_secrets)
    webhooks = _lists(endpoints.webhooks)
    webhook = _asks(endpoints.webhook)
    add_webhook = _asks(endpoints.add_webhook)
    change_webhook = _asks(endpoints.change_webhook)
    remove_webhook = _asks(endpoints.remove_webhook)
    rotate_webhook = _asks(endpoints.rotate_webhook)
    test_webhook = _asks(endpoints.test_webhook)
    deliveries = _lists(endpoints.deliveries)
    replay_webhook = _asks(endpoints.replay_webhook)
    projects = _lists(endpoints.projects)
    project = _asks(endpoints.project)
    set_project = _asks(endpoints.set_project)
    audit_log = _lists(endpoints.audit_log)
    installation = _asks(endpoints.installation)
    sign_in_link = _asks(endpoints.sign_in_link)
