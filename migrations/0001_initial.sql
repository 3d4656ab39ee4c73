-- The first schema. README.md beside this file says how to change it.

-- One row: what concerns no single study. Its lock is the last one that a transaction takes.
create table cluster (
    only_row bool not null default true constraint cluster_pk primary key constraint cluster_one check (only_row),
    -- Raised when a backup is restored; agents end workers of a lower one.
    epoch bigint not null default 1 constraint cluster_epoch check (epoch > 0),
    plan bigint not null default 0,
    -- Of the newest decision, which may have left the plan as it is.
    report json not null default '{"trials":[],"notes":[]}',
    memory json not null default 'null',
    -- Set while the newest decision failed its check.
    problem text,
    -- When a service last looked for silent nodes, and since when it does so without a gap: silence counts only from then.
    watched_ms bigint not null default 0,
    watching_since_ms bigint not null default 0
);
insert into cluster default values;

create table nodes (
    id uuid constraint nodes_pk primary key,
    name text not null constraint nodes_name check (length(name) between 1 and 253),
    state text not null constraint nodes_state check (state in ('ready', 'cordoned', 'draining', 'lost', 'removed')),
    devices json not null,
    address text not null constraint nodes_address check (length(address) <= 253),
    joined_ms bigint not null,
    last_seen_ms bigint not null,
    -- The agent's spool and the last report of it that was taken.
    spool uuid,
    spool_seq bigint not null default 0
);

-- Secrets are kept as SHA-256 only.
create table tokens (
    hash bytea constraint tokens_pk primary key constraint tokens_hash check (length(hash) = 32),
    kind text not null constraint tokens_kind check (kind in ('admin', 'join', 'node', 'browser_link', 'browser')),
    node uuid constraint tokens_node references nodes on delete cascade,
    created_ms bigint not null,
    expires_ms bigint,
    used_ms bigint,
    constraint tokens_node_kind check ((kind = 'node') = (node is not null))
);
create index tokens_expiry on tokens (expires_ms) where expires_ms is not null;

create table studies (
    id uuid constraint studies_pk primary key,
    name text not null constraint studies_name check (length(name) between 1 and 200),
    spec json not null,
    -- The bits of an unsigned number.
    seed bigint not null,
    state text not null constraint studies_state check (state in ('active', 'paused', 'stopping', 'completed', 'cancelled', 'failed')),
    -- The state that a stopping study is on its way to.
    ending text constraint studies_ending check (ending in ('completed', 'cancelled', 'failed')),
    reason text,
    archived bool not null default false,
    created_ms bigint not null,
    ended_ms bigint,
    next_number bigint not null default 0 constraint studies_next_number check (next_number >= 0),
    event_seq bigint not null default 0,
    device_seconds float8 not null default 0,
    constraint studies_stopping check ((state = 'stopping') = (ending is not null)),
    constraint studies_ended check ((state in ('completed', 'cancelled', 'failed')) = (ended_ms is not null))
);
create index studies_listing on studies (created_ms desc, id desc);
create index studies_open on studies (id) where ended_ms is null;

create table trials (
    id uuid constraint trials_pk primary key,
    study uuid not null constraint trials_study references studies on delete cascade,
    number bigint not null constraint trials_number_range check (number >= 0),
    parameters json not null,
    state text not null constraint trials_state check (state in
        ('waiting', 'starting', 'running', 'resizing', 'paused', 'stopping', 'completed', 'pruned', 'failed', 'cancelled')),
    -- The state that a stopping trial is on its way to.
    ending text constraint trials_ending check (ending in ('completed', 'pruned', 'failed', 'cancelled')),
    reason text constraint trials_reason check (reason in
        ('no_metric', 'worker_lost', 'preempted', 'out_of_memory', 'infeasible', 'timeout', 'not_promoted', 'not_started',
         'early_stopped', 'study_ended', 'error', 'user')),
    message text,
    attempt bigint not null default 1 constraint trials_attempt check (attempt > 0),
    failures bigint not null default 0,
    run_until float8 not null,
    done float8 not null default 0,
    held bool not null default false,
    rates json not null default '[]',
    metrics json not null default '{}',
    -- Of the study's first metric, and the resource at which it was measured; null if it was not a finite number.
    value float8,
    value_resource float8,
    -- The highest step measured.
    measured float8,
    checkpoint json,
    excluded bool not null default false,
    alone bool not null default false,
    peak_bytes bigint not null default 0,
    last_resize_ms bigint,
    results_since_resize bigint not null default 0,
    -- Of an outside worker.
    lease uuid,
    lease_holder text,
    lease_expires_ms bigint,
    created_ms bigint not null,
    started_ms bigint,
    ended_ms bigint,
    device_seconds float8 not null default 0,
    constraint trials_number unique (study, number),
    constraint trials_stopping check ((state = 'stopping') = (ending is not null)),
    constraint trials_ended check ((state in ('completed', 'pruned', 'failed', 'cancelled')) = (ended_ms is not null)),
    constraint trials_lease check ((lease is null) = (lease_expires_ms is null) and (lease is null) = (lease_holder is null))
);
create index trials_by_state on trials (study, state, number);
create index trials_by_value on trials (study, value, number);
create index trials_leases on trials (lease_expires_ms) where lease is not null;
create index trials_live on trials (study, number) where state in ('waiting', 'starting', 'running', 'resizing', 'stopping');

-- The carry-out row of a trial that has processes. Written only where attempt, generation and order are as they were read.
create table groups (
    trial uuid constraint groups_pk primary key constraint groups_trial references trials on delete cascade,
    study uuid not null,
    attempt bigint not null,
    generation bigint not null,
    ordinal bigint not null,
    doc json not null,
    -- Nodes on which a process of it is or should be.
    nodes uuid[] not null,
    -- What the attempt started from.
    checkpoint json,
    -- Devices held, and until when they are in the trial's device-seconds.
    width float8 not null,
    accounted_ms bigint not null,
    wake_at_ms bigint
);
create index groups_study on groups (study);
create index groups_nodes on groups using gin (nodes);
create index groups_wake on groups (wake_at_ms) where wake_at_ms is not null;

create table measurements (
    trial uuid not null constraint measurements_trial references trials on delete cascade,
    step float8 not null,
    metrics json not null,
    elapsed_s float8 not null,
    attempt bigint not null,
    at_ms bigint not null,
    constraint measurements_pk primary key (trial, step)
);

create table checkpoints (
    trial uuid not null constraint checkpoints_trial references trials on delete cascade,
    attempt bigint not null,
    step bigint not null,
    resource float8 not null,
    sha256 text not null constraint checkpoints_sha256 check (sha256 ~ '^[0-9a-f]{64}$'),
    bytes bigint not null,
    at_ms bigint not null,
    constraint checkpoints_pk primary key (trial, step, attempt)
);
create index checkpoints_content on checkpoints (sha256);

create table plans (
    number bigint constraint plans_pk primary key,
    parent bigint not null constraint plans_parent unique constraint plans_chain check (parent = number - 1),
    plan json not null,
    -- What it was decided from: what the decision before had left, and the snapshot.
    memory json not null,
    report json not null,
    snapshot json not null,
    seed bigint not null,
    wake_at_ms bigint,
    created_ms bigint not null
);

create table proposals (
    study uuid not null constraint proposals_study references studies on delete cascade,
    number bigint not null,
    parent bigint not null constraint proposals_chain check (parent = number - 1),
    -- The study's events up to here were known.
    seq bigint not null,
    -- The plan whose open slots it fills; 0 if an outside worker asked.
    plan bigint not null,
    asked bigint not null,
    first_trial bigint not null,
    trials bigint not null,
    created_ms bigint not null,
    constraint proposals_pk primary key (study, number),
    constraint proposals_parent unique (study, parent)
);
create unique index proposals_plan on proposals (study, plan) where plan > 0;

create table verdicts (
    study uuid not null constraint verdicts_study references studies on delete cascade,
    number bigint not null,
    parent bigint not null constraint verdicts_chain check (parent = number - 1),
    seq bigint not null,
    doc json not null,
    created_ms bigint not null,
    constraint verdicts_pk primary key (study, number),
    constraint verdicts_parent unique (study, parent)
);

-- What propose and judge remember: a fold over the study's events up to `cursor`.
create table memories (
    study uuid not null constraint memories_study references studies on delete cascade,
    kind text not null constraint memories_kind check (kind in ('propose', 'judge')),
    cursor bigint not null,
    doc json not null,
    constraint memories_pk primary key (study, kind)
);

create table events (
    study uuid not null constraint events_study references studies on delete cascade,
    seq bigint not null constraint events_seq check (seq > 0),
    kind text not null,
    trial uuid,
    at_ms bigint not null,
    doc json not null,
    constraint events_pk primary key (study, seq)
);
create index events_trial on events (trial, kind, seq) where trial is not null;

create table logs (
    id bigint generated always as identity constraint logs_pk primary key,
    trial uuid not null constraint logs_trial references trials on delete cascade,
    attempt bigint not null,
    at_ms bigint not null,
    source text not null,
    line text not null
);
create index logs_by_trial on logs (trial, id);

-- Answers already given, by the caller's Idempotency-Key.
create table idempotency (
    scope text not null,
    key text not null,
    request bytea not null,
    status bigint,
    body text,
    created_ms bigint not null,
    constraint idempotency_pk primary key (scope, key)
);
create index idempotency_age on idempotency (created_ms);
