"""What does each protocol cost on the same traffic? Five seeds each, 95 % intervals over the seeds.

python examples/compare_protocols.py
"""

from thence.lab.simulator import Scenario, replicate

PROTOCOLS = ("ks", "ks-hardware", "ci-dc", "prs", "rst")
TRAFFIC = Scenario(processes=8, messages=300, fanout="uniform", rate=10.0, delay="exponential:0.05")


def main() -> None:
    print(f"{'protocol':12} {'bytes per copy':>18} {'entries per copy':>18} {'held share':>18}")
    for protocol in PROTOCOLS:
        measures = replicate(TRAFFIC.with_(protocol=protocol), seeds=range(1, 6))
        columns = ("bytes_per_copy", "entries_per_copy", "held_per_copy")
        print(f"{protocol:12}", *(f"{measures[name]!s:>18}" for name in columns))


if __name__ == "__main__":
    main()
