import socket

from gpuwatch.hosts.builtin import demo_plan, local_plan


def test_the_local_plan_is_this_machine_without_ssh() -> None:
    (node,) = local_plan().nodes
    assert (node.name, node.link) == (socket.gethostname(), "local")
    assert local_plan().interval_s == 1.0


def test_the_demo_has_sixteen_nodes_that_say_they_are_a_demo() -> None:
    plan = demo_plan()
    assert [node.name for node in plan.nodes] == [f"gpu-{number:03}" for number in range(1, 17)]
    assert {node.link for node in plan.nodes} == {"demo"}
    assert plan.interval_s == 1.0
