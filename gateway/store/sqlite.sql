CREATE TABLE schema_version (
  version_num VARCHAR(32) NOT NULL,
  CONSTRAINT schema_version_pkc PRIMARY KEY (version_num)
);

CREATE TABLE lanes (
  "key" TEXT NOT NULL,
  owner TEXT NOT NULL,
  fence BIGINT NOT NULL,
  session_id TEXT,
  turn_id TEXT,
  lost_turn_id TEXT,
  language TEXT DEFAULT '' NOT NULL, is_voiced BOOLEAN DEFAULT 0 NOT NULL,
  CONSTRAINT pk_lanes PRIMARY KEY ("key")
);

CREATE INDEX ix_lanes_owner ON lanes (owner);

CREATE TABLE sessions (
  id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  number INTEGER,
  title TEXT NOT NULL,
  status TEXT NOT NULL,
  title_tries INTEGER NOT NULL,
  prompt_tokens INTEGER NOT NULL,
  prompt_seq INTEGER NOT NULL,
  parent_session_id TEXT,
  last_seq INTEGER NOT NULL,
  message_count INTEGER NOT NULL,
  tokens BIGINT NOT NULL,
  cost_usd FLOAT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  updated_at_ms BIGINT NOT NULL,
  model TEXT DEFAULT '' NOT NULL,
  profile TEXT DEFAULT '' NOT NULL,
  title_claimed_until_ms BIGINT DEFAULT '0' NOT NULL,
  channel TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_sessions PRIMARY KEY (id),
  CONSTRAINT fk_sessions_key FOREIGN KEY("key") REFERENCES lanes ("key"),
  CONSTRAINT uq_sessions_key_number UNIQUE ("key", number)
);

CREATE INDEX ix_sessions_newest ON sessions (created_at_ms, id);

CREATE INDEX ix_sessions_parent_session_id ON sessions (parent_session_id);

CREATE TABLE entries (
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  role TEXT NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  tool_calls TEXT,
  tool_call_id TEXT NOT NULL,
  is_error BOOLEAN NOT NULL,
  tail_start_seq INTEGER NOT NULL,
  message_id TEXT,
  turn_id TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  is_undone BOOLEAN DEFAULT 0 NOT NULL,
  author TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_entries PRIMARY KEY (session_id, seq),
  CONSTRAINT fk_entries_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
  CONSTRAINT uq_entries_message_id UNIQUE (message_id)
);

CREATE INDEX ix_entries_compactions ON entries (session_id, seq) WHERE kind = 'compaction';

CREATE TABLE boundaries (
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  "key" TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  claimed_until_ms BIGINT NOT NULL,
  tries INTEGER NOT NULL,
  done_at_ms BIGINT,
  CONSTRAINT pk_boundaries PRIMARY KEY (session_id, seq),
  CONSTRAINT fk_boundaries_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE INDEX ix_boundaries_due ON boundaries ("key", created_at_ms) WHERE done_at_ms IS NULL;

CREATE TABLE passages (
  id INTEGER NOT NULL,
  session_id TEXT NOT NULL,
  seq INTEGER NOT NULL,
  "key" TEXT NOT NULL,
  terms TEXT NOT NULL, vector BLOB, vector_model TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_passages PRIMARY KEY (id),
  CONSTRAINT fk_passages_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
  CONSTRAINT uq_passages_session_id_seq UNIQUE (session_id, seq)
);

CREATE INDEX ix_passages_key ON passages ("key");

CREATE TABLE todos (
  "key" TEXT NOT NULL,
  position INTEGER NOT NULL,
  text TEXT NOT NULL,
  state TEXT NOT NULL,
  CONSTRAINT pk_todos PRIMARY KEY ("key", position)
);

CREATE TABLE facts (
  id INTEGER NOT NULL,
  owner TEXT NOT NULL,
  text TEXT NOT NULL,
  terms TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  number INTEGER DEFAULT '0' NOT NULL,
  place TEXT DEFAULT '' NOT NULL,
  is_shared BOOLEAN DEFAULT 0 NOT NULL,
  origin TEXT DEFAULT 'told' NOT NULL,
  vector BLOB,
  vector_model TEXT DEFAULT '' NOT NULL,
  told_at_ms BIGINT DEFAULT '0' NOT NULL, uses INTEGER DEFAULT '0' NOT NULL, former TEXT DEFAULT '' NOT NULL, helps_with TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_facts PRIMARY KEY (id),
  CONSTRAINT ck_facts_ck_facts_owned CHECK (owner <> '')
);

CREATE UNIQUE INDEX ix_facts_owner_number ON facts (owner, number);

CREATE TABLE turns (
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  state TEXT NOT NULL,
  runs INTEGER NOT NULL,
  fence BIGINT NOT NULL,
  error_reference TEXT NOT NULL,
  started_at_ms BIGINT NOT NULL,
  finished_at_ms BIGINT,
  CONSTRAINT pk_turns PRIMARY KEY (id),
  CONSTRAINT fk_turns_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE INDEX ix_turns_error_reference ON turns (error_reference) WHERE error_reference <> '';

CREATE INDEX ix_turns_key ON turns ("key");

CREATE INDEX ix_turns_session_id ON turns (session_id);

CREATE TABLE consumed (
  message_id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  consumed_at_ms BIGINT NOT NULL,
  is_given_up BOOLEAN DEFAULT 0 NOT NULL,
  error_reference TEXT DEFAULT '' NOT NULL,
  letter_id TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_consumed PRIMARY KEY (message_id)
);

CREATE INDEX ix_consumed_error_reference ON consumed (error_reference) WHERE error_reference <> '';

CREATE INDEX ix_consumed_letter_id ON consumed (letter_id) WHERE letter_id <> '';

CREATE INDEX ix_consumed_turn_id ON consumed (turn_id);

CREATE TABLE usage (
  id INTEGER NOT NULL,
  session_id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  owner TEXT NOT NULL,
  purpose TEXT NOT NULL,
  model TEXT NOT NULL,
  prompt_tokens BIGINT NOT NULL,
  completion_tokens BIGINT NOT NULL,
  cached_tokens BIGINT NOT NULL,
  cost_usd FLOAT NOT NULL,
  turn_id TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  CONSTRAINT pk_usage PRIMARY KEY (id),
  CONSTRAINT fk_usage_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE INDEX ix_usage_day ON usage (created_at_ms);

CREATE INDEX ix_usage_owner_day ON usage (owner, created_at_ms);

CREATE INDEX ix_usage_session_id ON usage (session_id);

CREATE TABLE outbox (
  id TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  position INTEGER NOT NULL,
  address TEXT NOT NULL,
  text TEXT NOT NULL,
  kind TEXT NOT NULL,
  title TEXT,
  state TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  updated_at_ms BIGINT NOT NULL,
  choices TEXT,
  amends TEXT DEFAULT '' NOT NULL,
  files TEXT,
  language TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_outbox PRIMARY KEY (id)
);

CREATE INDEX ix_outbox_key ON outbox ("key");

CREATE INDEX ix_outbox_new ON outbox (created_at_ms) WHERE state = 'new';

CREATE INDEX ix_outbox_turn_id ON outbox (turn_id);

CREATE TABLE reply_files (
  reply_id TEXT NOT NULL,
  position INTEGER NOT NULL,
  "key" TEXT NOT NULL,
  content BLOB NOT NULL,
  CONSTRAINT pk_reply_files PRIMARY KEY (reply_id, position)
);

CREATE TABLE deliveries (
  reply_id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  channel TEXT NOT NULL,
  state TEXT NOT NULL,
  attempts INTEGER NOT NULL,
  chunks INTEGER NOT NULL,
  platform_ids TEXT NOT NULL,
  reason TEXT NOT NULL,
  updated_at_ms BIGINT NOT NULL,
  CONSTRAINT pk_deliveries PRIMARY KEY (reply_id)
);

CREATE INDEX ix_deliveries_key ON deliveries ("key");

CREATE TABLE buttons (
  token TEXT NOT NULL,
  group_id TEXT NOT NULL,
  reply_id TEXT NOT NULL,
  label TEXT NOT NULL,
  command TEXT NOT NULL,
  meant_for TEXT NOT NULL,
  "key" TEXT NOT NULL,
  address TEXT NOT NULL,
  is_private BOOLEAN NOT NULL,
  place TEXT NOT NULL,
  realm TEXT NOT NULL,
  expires_at_ms BIGINT NOT NULL,
  pressed_by TEXT NOT NULL,
  CONSTRAINT pk_buttons PRIMARY KEY (token)
);

CREATE INDEX ix_buttons_group_id ON buttons (group_id);

CREATE INDEX ix_buttons_key ON buttons ("key");

CREATE TABLE loans (
  id INTEGER NOT NULL,
  at_ms BIGINT NOT NULL,
  owner TEXT NOT NULL,
  "key" TEXT NOT NULL,
  person TEXT NOT NULL,
  placeholder TEXT NOT NULL,
  tool TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  CONSTRAINT pk_loans PRIMARY KEY (id)
);

CREATE INDEX ix_loans_owner ON loans (owner);

CREATE TABLE grants (
  owner TEXT NOT NULL,
  role TEXT NOT NULL,
  granted_by TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  reason TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_grants PRIMARY KEY (owner)
);

CREATE TABLE place_rules (
  place TEXT NOT NULL,
  audience TEXT,
  lets_guests BOOLEAN,
  tools TEXT,
  profile TEXT,
  roles TEXT,
  CONSTRAINT pk_place_rules PRIMARY KEY (place)
);

CREATE TABLE place_approvals (
  place TEXT NOT NULL,
  tool TEXT NOT NULL,
  role TEXT NOT NULL,
  digest TEXT NOT NULL,
  approved_by TEXT NOT NULL,
  approved_at_ms BIGINT NOT NULL,
  CONSTRAINT pk_place_approvals PRIMARY KEY (place, tool, role, digest)
);

CREATE TABLE place_realms (
  place TEXT NOT NULL,
  realm TEXT NOT NULL,
  CONSTRAINT pk_place_realms PRIMARY KEY (place)
);

CREATE TABLE limit_rules (
  owner TEXT NOT NULL,
  tokens BIGINT,
  nano_usd BIGINT,
  turns BIGINT,
  per_minute INTEGER,
  CONSTRAINT pk_limit_rules PRIMARY KEY (owner)
);

CREATE TABLE access_revision (
  id INTEGER NOT NULL,
  revision BIGINT NOT NULL,
  CONSTRAINT pk_access_revision PRIMARY KEY (id)
);

CREATE TABLE links (
  owner TEXT NOT NULL,
  person TEXT NOT NULL,
  linked_at_ms BIGINT NOT NULL,
  CONSTRAINT pk_links PRIMARY KEY (owner)
);

CREATE INDEX ix_links_person ON links (person);

CREATE TABLE purses (
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,
  purse TEXT NOT NULL,
  CONSTRAINT pk_purses PRIMARY KEY (owner)
);

CREATE INDEX ix_purses_purse_day ON purses (purse, day);

CREATE TABLE link_codes (
  owner TEXT NOT NULL,
  digest TEXT NOT NULL,
  address TEXT NOT NULL,
  language TEXT NOT NULL,
  expires_at_ms BIGINT NOT NULL,
  entered_by TEXT NOT NULL,
  name TEXT DEFAULT '' NOT NULL,
  CONSTRAINT pk_link_codes PRIMARY KEY (owner),
  CONSTRAINT uq_link_codes_digest UNIQUE (digest)
);

CREATE TABLE link_tries (
  owner TEXT NOT NULL,
  tries INTEGER NOT NULL,
  until_ms BIGINT NOT NULL,
  CONSTRAINT pk_link_tries PRIMARY KEY (owner)
);

CREATE TABLE audit (
  id INTEGER NOT NULL,
  at_ms BIGINT NOT NULL,
  actor TEXT NOT NULL,
  action TEXT NOT NULL,
  subject TEXT NOT NULL,
  "before" TEXT NOT NULL,
  "after" TEXT NOT NULL,
  CONSTRAINT pk_audit PRIMARY KEY (id)
);

CREATE INDEX ix_audit_actor ON audit (actor);

CREATE INDEX ix_audit_subject ON audit (subject);

CREATE TABLE installation (
  number INTEGER NOT NULL,
  id TEXT NOT NULL,
  CONSTRAINT pk_installation PRIMARY KEY (number),
  CONSTRAINT ck_installation_ck_installation_only CHECK (number = 1)
);

CREATE TABLE spending (
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,
  tokens BIGINT NOT NULL,
  nano_usd BIGINT NOT NULL,
  turns INTEGER NOT NULL,
  warned TEXT NOT NULL,
  CONSTRAINT pk_spending PRIMARY KEY (owner, day)
);

CREATE TABLE reservations (
  id TEXT NOT NULL,
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,
  tokens BIGINT NOT NULL,
  nano_usd BIGINT NOT NULL,
  expires_at_ms BIGINT NOT NULL,
  CONSTRAINT pk_reservations PRIMARY KEY (id)
);

CREATE INDEX ix_reservations_day ON reservations (day);

CREATE INDEX ix_reservations_owner_day ON reservations (owner, day);

CREATE TABLE counted_turns (
  turn_id TEXT NOT NULL,
  owner TEXT NOT NULL,
  day INTEGER NOT NULL,
  CONSTRAINT pk_counted_turns PRIMARY KEY (turn_id)
);

CREATE INDEX ix_counted_turns_owner_day ON counted_turns (owner, day);

CREATE TABLE calendars (
  owner TEXT NOT NULL,
  zone TEXT NOT NULL,
  last_number INTEGER NOT NULL,
  CONSTRAINT pk_calendars PRIMARY KEY (owner)
);

CREATE TABLE schedules (
  id TEXT NOT NULL,
  owner TEXT NOT NULL,
  number INTEGER NOT NULL,
  "key" TEXT NOT NULL,
  address TEXT NOT NULL,
  author_id TEXT NOT NULL,
  author_name TEXT NOT NULL,
  is_private BOOLEAN NOT NULL,
  place TEXT NOT NULL,
  kind TEXT NOT NULL,
  text TEXT NOT NULL,
  recurrence TEXT NOT NULL,
  zone TEXT NOT NULL,
  state TEXT NOT NULL,
  next_due_ms BIGINT NOT NULL,
  held_until_ms BIGINT NOT NULL,
  firings INTEGER NOT NULL,
  fired_at_ms BIGINT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  CONSTRAINT pk_schedules PRIMARY KEY (id),
  CONSTRAINT uq_schedules_owner_number UNIQUE (owner, number)
);

CREATE INDEX ix_schedules_due ON schedules (next_due_ms) WHERE state = 'active';

CREATE TABLE sub_tasks (
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  parent_session_id TEXT NOT NULL,
  parent_task_id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  sub_type TEXT NOT NULL,
  label TEXT NOT NULL,
  prompt TEXT NOT NULL,
  mode TEXT NOT NULL,
  depth INTEGER NOT NULL,
  state TEXT NOT NULL,
  reason TEXT NOT NULL,
  result TEXT NOT NULL,
  confinement TEXT NOT NULL,
  worker_id TEXT NOT NULL,
  alive_until_ms BIGINT NOT NULL,
  is_cancel_wanted BOOLEAN NOT NULL,
  wake TEXT,
  wake_id TEXT NOT NULL,
  is_told BOOLEAN NOT NULL,
  created_at_ms BIGINT NOT NULL,
  started_at_ms BIGINT NOT NULL,
  finished_at_ms BIGINT NOT NULL,
  updated_at_ms BIGINT NOT NULL,
  tokens_in BIGINT NOT NULL,
  tokens_out BIGINT NOT NULL,
  cost_usd FLOAT NOT NULL,
  doing TEXT,
  CONSTRAINT pk_sub_tasks PRIMARY KEY (id),
  CONSTRAINT fk_sub_tasks_session_id FOREIGN KEY(session_id) REFERENCES sessions (id),
  CONSTRAINT uq_sub_tasks_session_id UNIQUE (session_id)
);

CREATE INDEX ix_sub_tasks_parent_session_id ON sub_tasks (parent_session_id);

CREATE TABLE barriers (
  id TEXT NOT NULL,
  session_id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  turn_id TEXT NOT NULL,
  mode TEXT NOT NULL,
  needed INTEGER NOT NULL,
  is_met BOOLEAN NOT NULL,
  wake TEXT NOT NULL,
  created_at_ms BIGINT NOT NULL,
  CONSTRAINT pk_barriers PRIMARY KEY (id),
  CONSTRAINT fk_barriers_session_id FOREIGN KEY(session_id) REFERENCES sessions (id)
);

CREATE INDEX ix_barriers_session_id ON barriers (session_id);

CREATE TABLE waits (
  barrier_id TEXT NOT NULL,
  task_id TEXT NOT NULL,
  "key" TEXT NOT NULL,
  CONSTRAINT pk_waits PRIMARY KEY (barrier_id, task_id),
  CONSTRAINT fk_waits_barrier_id FOREIGN KEY(barrier_id) REFERENCES barriers (id)
);

CREATE INDEX ix_waits_task_id ON waits (task_id);

CREATE TABLE task_workers (
  worker_id TEXT NOT NULL,
  alive_until_ms BIGINT NOT NULL,
  CONSTRAINT pk_task_workers PRIMARY KEY (worker_id)
);

CREATE TABLE board (
  id INTEGER NOT NULL,
  revision BIGINT NOT NULL,
  CONSTRAINT pk_board PRIMARY KEY (id)
);

CREATE TABLE sub_type_changes (
  name TEXT NOT NULL,
  label TEXT,
  description TEXT,
  tools TEXT,
  rounds_max INTEGER,
  prompt TEXT,
  CONSTRAINT pk_sub_type_changes PRIMARY KEY (name)
);

CREATE VIRTUAL TABLE facts_index
  USING fts5(owner, terms, content='facts', content_rowid='id', tokenize='ascii');

CREATE TRIGGER facts_added AFTER INSERT ON facts BEGIN
  INSERT INTO facts_index(rowid, owner, terms) VALUES (new.id, new.owner, new.terms);
  END;

CREATE TRIGGER facts_removed AFTER DELETE ON facts BEGIN
  INSERT INTO facts_index(facts_index, rowid, owner, terms)
  VALUES ('delete', old.id, old.owner, old.terms);
  END;

CREATE VIRTUAL TABLE passages_index
  USING fts5(key, terms, content = 'passages', content_rowid = 'id', tokenize = 'ascii');

CREATE TRIGGER passages_added AFTER INSERT ON passages BEGIN
  INSERT INTO passages_index(rowid, key, terms) VALUES (new.id, new.key, new.terms);
  END;

CREATE TRIGGER passages_removed AFTER DELETE ON passages BEGIN
  INSERT INTO passages_index(passages_index, rowid, key, terms)
  VALUES ('delete', old.id, old.key, old.terms);
  END;

CREATE TRIGGER facts_changed AFTER UPDATE OF owner, terms ON facts BEGIN
  INSERT INTO facts_index(facts_index, rowid, owner, terms)
  VALUES ('delete', old.id, old.owner, old.terms);
  INSERT INTO facts_index(rowid, owner, terms) VALUES (new.id, new.owner, new.terms);
  END;

INSERT INTO schema_version (version_num) VALUES ('v3');
