"""The known traps of the three platforms and their SDKs, and the test that pins each.

Chapter "8" are the traps by number (Telegram to 22, Discord to 42, Slack to 65, all from 66), "3.13" how discord.py
fails, "4.16" the life of Slack's sockets, "10.1" and "10.2" what was measured of discord.py and slack-bolt. A value
that begins with `exempt:` is the reason why there is nothing to test. `test_traps.py` sees that no number is missing,
and no test.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_TG = "tests/unit/test_normalize_telegram.py::"
_DC = "tests/unit/test_normalize_discord.py::"
_SL = "tests/unit/test_normalize_slack.py::"
_CONTRACT = "tests/contract/test_channel_contract.py::"
_RENDER = "tests/unit/test_render_platforms.py::"
_MESSAGES = "tests/property/test_render.py::"
_DELIVERY = "tests/unit/test_delivery.py::"
_SHAPES = "tests/contract/test_discord_shapes.py::"
_DISCORD = "tests/e2e/test_reconnects_discord.py::"
_SLACK = "tests/e2e/test_reconnects_slack.py::"
_TELEGRAM = "tests/e2e/test_reconnects_telegram.py::"
_EMULATED_DISCORD = "tests/contract/test_emulator_discord.py::"
_EMULATED_SLACK = "tests/contract/test_emulator_slack.py::"
_STREAMS = "tests/contract/test_slack_streams.py::"
_ACKNOWLEDGED = _CONTRACT + "test_only_after_the_bus_has_it"
_AWAY = _CONTRACT + "test_a_message_said_while_we_were_gone_is_answered_when_we_are_back"
_TWICE = _CONTRACT + "test_an_event_that_comes_twice_is_answered_once"
_POISON = _CONTRACT + "test_an_event_nobody_can_parse_does_not_hold_up_the_next"
_LOST_ACK = _CONTRACT + "test_a_cut_after_the_server_did_it_is_not_said_twice"
_OUTAGE = _CONTRACT + "test_what_failed_before_the_server_did_anything_is_tried_again"
_RATE = _CONTRACT + "test_are_told_apart"
_ORDER = _CONTRACT + "test_messages_of_one_person_keep_their_order"
_HALF_OPEN = "tests/faults/test_half_open.py::test_a_half_open_link_is_noticed_and_nothing_is_lost_on_it"

TRAPS: Final[Mapping[str, Mapping[int, str]]] = {
    "8": {
        1: _ACKNOWLEDGED,
        2: _POISON,
        3: "tests/e2e/test_traps.py::test_what_another_program_asked_telegram_for_does_not_stick",
        4: "tests/e2e/test_channels_telegram.py::test_a_forgotten_webhook_is_removed",
        5: "tests/e2e/test_channels_telegram.py::test_two_processes_never_poll_at_once",
        6: _TELEGRAM + "test_ids_that_begin_anew_are_not_taken_for_old_ones",
        7: _RENDER + "test_telegram_offsets_count_utf16_units",
        8: "tests/unit/test_channel_errors.py::test_telegram",
        9: _DELIVERY + "test_of_unknown_outcome_is_looked_up",
        10: "tests/contract/test_moved_and_shared.py::test_is_found_when_the_send_is_what_tells_us",
        11: "tests/unit/test_doctor.py::test_what_would_keep_a_bot_deaf_is_told",
        12: _TG + "test_the_reply_that_a_topic_fills_in_does_not_count",
        13: _TG + "test_the_general_topic_is_the_group_itself",
        14: _RENDER + "test_telegram_splits_before_it_loses_formatting",
        15: "tests/e2e/test_traps.py::test_an_edit_that_changes_nothing_is_done",
        16: "tests/contract/test_streaming.py::test_a_rate_limit_slows_the_draft_and_loses_nothing",
        17: "tests/contract/test_emulator_telegram.py::test_button_data_is_limited_in_bytes",
        18: _DELIVERY + "test_because_of_the_rate_pauses_the_bucket_for_everybody",
        19: "tests/e2e/test_channels_role.py::test_answers_flow_and_the_token_is_in_no_line_of_the_log",
        20: _TG + "test_an_anonymous_admin_is_known_by_the_chat_not_by_the_stand_in",
        21: _ORDER,
        22: _TG + "test_a_thread_id_without_a_topic_is_only_a_chain_of_replies",
        23: _AWAY,
        24: _DISCORD + "test_a_session_that_is_gone_is_begun_anew_and_its_gap_read_back",
        25: _DISCORD + "test_a_first_connect_that_is_refused_is_tried_again",
        26: _SHAPES + "test_an_event_that_nobody_can_read_costs_no_session",
        27: _LOST_ACK,
        28: "tests/e2e/test_channels_discord.py::test_a_nonce_is_the_same_for_every_attempt_and_fits",
        29: _EMULATED_DISCORD + "test_a_nonce_alone_does_not_dedupe",
        30: _DISCORD + "test_what_only_the_operator_can_mend_ends_the_line",
        31: _SHAPES + "test_an_update_that_nobody_wrote_changes_nothing",
        32: _DC + "test_a_mention_of_the_bot_or_of_its_own_role_addresses_it",
        33: "tests/e2e/test_channels_discord.py::test_an_answer_pings_nobody",
        34: _MESSAGES + "test_discord_messages_are_valid",
        35: "tests/contract/test_channel_attachments.py::test_a_link_that_has_expired_is_made_anew",
        36: "tests/contract/test_moved_and_shared.py::"
        "test_a_place_that_shut_us_out_costs_one_call_until_somebody_speaks_there",
        37: "exempt: the permissions of the invitation are the operator's; without them a thread is a closed place",
        38: "exempt: a trap for emulators; with a charset no test of Discord would log in",
        39: _EMULATED_DISCORD + "test_a_refusal_without_via_looks_like_a_ban",
        40: "tests/unit/test_config_channels.py::test_one_process_speaks_to_one_discord",
        41: "tests/contract/test_discord_transports.py::test_a_shard_whose_session_is_gone_reads_back_what_it_missed",
        42: "tests/contract/test_discord_transports.py::test_the_sessions_of_the_day_are_not_overdrawn",
        43: _ACKNOWLEDGED,
        44: "tests/e2e/test_slack_context.py::test_opening_the_assistant_or_the_home_tab_is_nothing_to_answer",
        45: "tests/e2e/test_channels_slack.py::test_a_mention_arrives_as_two_events_and_is_one_message",
        46: _LOST_ACK,
        47: _CONTRACT + "test_long_answers_are_split_at_the_limit",
        48: _STREAMS + "test_a_stream_is_stopped_before_slack_does_it",
        49: _STREAMS + "test_a_stream_is_appended_to_and_becomes_the_answer",
        50: "tests/e2e/test_channels_slack.py::test_a_thread_reply_that_was_missed_is_read_back",
        51: "tests/unit/test_backfill.py::test_a_room_that_cannot_be_read_holds_up_no_other",
        52: "tests/e2e/test_traps.py::test_a_ts_is_compared_digit_by_digit",
        53: _SL + "test_a_persons_edit_is_told_from_an_unfurl",
        54: "tests/e2e/test_channels_slack.py::test_a_wrong_app_token_ends_the_line_with_a_sentence",
        55: _SLACK + "test_an_address_that_is_refused_is_asked_for_anew",
        56: "tests/contract/test_slack_transports.py::test_while_one_socket_is_renewed_the_other_hears",
        57: _ORDER,
        58: _SLACK + "test_a_farewell_is_followed_by_another_socket",
        59: "tests/e2e/test_channels_slack.py::test_variables_of_the_sdk_change_nothing",
        60: "tests/contract/test_slack_transports.py::test_what_slack_did_not_sign_just_now_is_refused",
        61: _SL + "test_a_shared_channel_keeps_one_id_and_names_the_foreign_workspace",
        62: "tests/contract/test_channel_attachments.py::test_a_page_to_log_in_at_is_no_file",
        63: _MESSAGES + "test_slack_messages_are_valid",
        64: "tests/unit/test_channel_errors.py::test_slack",
        65: "exempt: the handler is made in a coroutine; elsewhere no test of Slack would connect",
        66: _CONTRACT + "test_other_bots_and_the_bot_itself_are_ignored",
        67: _LOST_ACK,
        68: _MESSAGES + "test_telegram_messages_are_valid",
        69: _RENDER + "test_code_is_closed_and_reopened_with_its_language",
    },
    "3.13": {
        1: _OUTAGE,  # 500, 502, 504, 524: retried by the SDK
        2: _OUTAGE,  # 503: not
        3: _RATE,  # 429 with Via, longer than the SDK waits
        4: _LOST_ACK,
        5: _LOST_ACK,  # a reset is what the emulator's cut is
        6: "exempt: as 7, one step earlier; whatever ends a client, the next one is built",
        7: _DISCORD + "test_a_first_connect_that_is_refused_is_tried_again",
        8: _DISCORD + "test_a_server_that_goes_down_for_maintenance_is_resumed",
        9: _SHAPES + "test_an_event_that_nobody_can_read_costs_no_session",
        10: _DISCORD + "test_a_link_that_is_half_dead_is_noticed_by_silence",
        11: _DISCORD + "test_a_session_that_is_gone_is_begun_anew_and_its_gap_read_back",
    },
    "4.16": {
        1: "tests/e2e/test_channels_slack.py::test_a_wrong_app_token_ends_the_line_with_a_sentence",
        2: _SLACK + "test_a_farewell_is_followed_by_another_socket",
        3: _ACKNOWLEDGED,
        4: _SLACK + "test_an_address_that_is_refused_is_asked_for_anew",
        5: _CONTRACT + "test_a_line_stops_within_five_seconds",
        6: "exempt: Slack sends no frame of four megabytes; a socket that dies of one is mended as any other",
    },
    "10.1": {
        1: _DISCORD + "test_a_gateway_that_drops_everybody_is_not_stormed",
        2: _DISCORD + "test_a_gateway_that_stays_away_is_not_left_to_the_sdks_patience",
        3: _DISCORD + "test_a_first_connect_that_is_refused_is_tried_again",
        4: _DISCORD + "test_a_session_that_is_gone_is_begun_anew_and_its_gap_read_back",
        5: _TWICE,
        6: _ORDER,
        7: _OUTAGE,
        8: "tests/contract/test_discord_commands.py::test_an_answer_whose_acknowledgement_got_lost_is_there_once",
        9: _DISCORD + "test_a_link_that_is_half_dead_is_noticed_by_silence",
        10: "exempt: a gateway that is not asked for would be the real one, and no test would log in",
    },
    "10.2": {
        1: _ACKNOWLEDGED,
        2: "tests/e2e/test_slack_context.py::test_opening_the_assistant_or_the_home_tab_is_nothing_to_answer",
        3: "tests/e2e/test_channels_slack.py::test_a_mention_arrives_as_two_events_and_is_one_message",
        4: "tests/e2e/test_channels_slack.py::test_variables_of_the_sdk_change_nothing",
        5: _SLACK + "test_an_address_that_is_refused_is_asked_for_anew",
        6: _LOST_ACK,
        7: _EMULATED_SLACK + "test_what_slack_refuses",
        8: "tests/contract/test_proxies.py::test_everything_goes_through_it",
        9: _HALF_OPEN,
    },
}
