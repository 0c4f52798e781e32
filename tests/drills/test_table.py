"""Each kind of live fault has a drill: real processes on nodes behind a real sshd."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pytest

from tests.drills import test_ended_ranks as ended
from tests.drills import test_lost_links as links
from tests.drills import test_other_starts as starts
from tests.drills import test_ray_workers as ray
from tests.drills import test_real_launchers as launchers
from tests.drills import test_reported_lines as reported
from tests.drills import test_several_nodes as several
from tests.drills import test_training_numbers as numbers
from tests.end_to_end.drills import test_refused_logins as refused
from tests.end_to_end.jobs.ended import test_recorded_launches as recorded
from tests.session.log_folder import test_records_beside_logs as records


class Fault(NamedTuple):
    """A kind of live fault, and its drills."""

    what: str
    drills: tuple[Callable[..., None], ...]


FAULTS: Mapping[str, Fault] = {
    "A": Fault(
        "only the launcher's output tells how a rank ended",
        (
            ended.test_a_killed_rank_is_named_by_the_output_of_its_launcher,
            launchers.test_a_killed_rank_of_torchrun_on_two_nodes_is_named,
            ended.test_ranks_without_a_log_are_reported_as_such,
            links.test_a_job_that_ended_while_its_node_was_out_of_reach_is_reported_once,
        ),
    ),
    "B": Fault("warnings of a start", (ended.test_warnings_of_a_start_are_no_reason,)),
    "C": Fault(
        "a dead job's log, and one file on two nodes",
        (
            several.test_a_dead_job_s_log_is_of_no_job_that_runs,
            several.test_a_file_that_four_ranks_write_on_two_nodes_is_one_file,
        ),
    ),
    "D": Fault(
        "a hang without a history",
        (
            several.test_a_hang_within_the_first_minute_names_the_rank_by_its_stack,
            several.test_a_rank_that_evaluates_or_saves_inside_of_its_main_is_no_culprit,
        ),
    ),
    "E": Fault("an event before a job", (several.test_what_befell_a_node_before_a_job_is_not_of_it,)),
    "F": Fault("metrics held open", (numbers.test_metrics_that_a_rank_holds_open_are_followed,)),
    "G": Fault(
        "a restart, and the end of a hang",
        (
            ended.test_the_incident_of_an_attempt_closes_when_the_next_one_steps,
            ended.test_a_hang_ends_with_the_last_rank_of_its_job,
        ),
    ),
    "H": Fault("slower", (numbers.test_a_slower_job_names_no_rank_that_is_only_the_one_that_logs,)),
    "I": Fault("NaN in a shared file", (numbers.test_the_first_nan_of_a_shared_file_is_that_of_its_rank,)),
    "J": Fault("a limit of one node", (several.test_check_names_the_one_node_that_has_a_low_limit,)),
    "K": Fault(
        "ranks that number themselves",
        (starts.test_ranks_that_a_program_spawns_and_numbers_itself_are_named,),
    ),
    "L": Fault(
        "what is wrong without an error",
        (
            numbers.test_a_loss_that_rises_is_reported,
            starts.test_one_rank_beside_idle_gpus_is_reported,
            numbers.test_a_job_that_was_slow_from_its_start_is_reported_by_a_limit,
        ),
    ),
    "M": Fault(
        "ranks in lines",
        (
            ended.test_the_rank_that_a_launcher_puts_before_a_line_is_that_of_the_job,
            ray.test_a_line_of_the_driver_is_of_the_worker_whose_pid_it_names,
        ),
    ),
    "N": Fault("the silent rank leads", (ended.test_the_ranks_that_waited_do_not_lead,)),
    "O": Fault(
        "records beside logs",
        (
            starts.test_a_container_s_record_beside_the_logs_gives_the_cause,
            records.test_a_record_is_read_by_scan_and_by_a_session,
        ),
    ),
    "P": Fault(
        "checkpoints",
        (
            numbers.test_an_incident_tells_the_last_whole_checkpoint,
            numbers.test_the_last_whole_checkpoint_is_known_in_each_format,
        ),
    ),
    "Q": Fault(
        "reboots and containers",
        (
            several.test_a_node_that_rebooted_is_named_with_its_ranks,
            several.test_a_rank_in_a_container_of_the_node_is_named,
        ),
    ),
    "R": Fault(
        "the same name later",
        (
            ended.test_a_later_session_names_the_same_rank,
            numbers.test_a_report_made_once_names_the_rank_that_the_logs_show,
        ),
    ),
    "S": Fault(
        "connected too late",
        (
            starts.test_a_job_that_ended_before_is_found_in_the_folder_of_a_shell,
            recorded.test_a_user_s_last_launcher_in_the_accounting_leads_to_the_job,
            recorded.test_a_command_of_sudo_in_the_journal_leads_to_the_job,
        ),
    ),
    "T": Fault(
        "full disks, ranks that save, copied logs, phantom ranks, the reason of an end",
        (
            starts.test_a_full_disk_is_named_by_its_mount,
            several.test_no_end_of_a_rank_that_saves_is_offered,
            reported.test_copied_logs_tell_the_time_of_their_lines,
            reported.test_a_progress_bar_beside_a_rank_s_line_adds_no_rank,
            reported.test_the_reason_of_an_end_leads_over_the_word_for_it,
            reported.test_what_is_written_to_a_file_that_lost_its_name_is_read,
            links.test_a_lost_node_lists_no_rank_of_a_job_that_has_ended,
            refused.test_a_report_waits_for_a_node_that_refuses_at_first,
        ),
    ),
}


@pytest.mark.parametrize("letter", "ABCDEFGHIJKLMNOPQRST")
def test_every_kind_of_fault_has_a_drill_in_the_short_tests(letter: str) -> None:
    drills = FAULTS[letter].drills
    marks = [{mark.name for mark in getattr(drill, "pytestmark", [])} for drill in drills]
    assert any("long" not in each for each in marks)
