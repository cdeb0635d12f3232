"""A SLURM cluster of two nodes on this machine, brought up in a folder of its own and taken down again."""
import getpass
import os
import pathlib
import signal
import socket
import subprocess
import time

CONFIGURATION = """\
ClusterName=coldframe
SlurmctldHost=localhost(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
AuthInfo=cred_expire=5
SlurmctldPort={controller}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdSpoolDir={folder}/spool-%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=1
ReturnToService=2
KillWait=60
MinJobAge=86400
InactiveLimit=0
OverTimeLimit=0
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={first} CPUs=4 RealMemory=4000 Gres=gpu:1 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={second} CPUs=4 RealMemory=4000 Gres=gpu:1 State=UNKNOWN
PartitionName=low Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=5
PartitionName=high Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


class Cluster:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        controller, first, second = free_ports(3)
        (self.folder / "state").mkdir(parents=True, exist_ok=True)
        for node in ("n1", "n2"):
            (self.folder / f"spool-{node}").mkdir(exist_ok=True)
        (self.folder / "gres.conf").write_text("NodeName=n1,n2 Name=gpu File=/dev/null\n")
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            user=getpass.getuser(), host=socket.gethostname().split(".")[0], folder=self.folder, controller=controller,
            first=first, second=second))
        self.environment = os.environ | {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self.daemons = []

    def __enter__(self):
        self.start("slurmctld", "-D", "-i")
        for node in ("n1", "n2"):
            self.start("slurmd", "-D", "-N", node)
        try:
            self.wait(lambda: self.run("sinfo", "-hN", "-p", "low", "-o", "%n %T").split().count("idle") == 2, "two idle nodes", 120)
        except RuntimeError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.run("scancel", "--user", getpass.getuser(), check=False)
        for daemon in reversed(self.daemons):
            daemon.send_signal(signal.SIGTERM)
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def start(self, *words):
        output = open(self.folder / f"{words[0]}-{len(self.daemons)}.out", "w")
        self.daemons.append(subprocess.Popen([f"/usr/sbin/{words[0]}", *words[1:]], stdout=output, stderr=output,
                                             env=self.environment))

    def run(self, *words, check=True, **options):
        options = dict(env=self.environment) | options
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
        return done.stdout

    def wait(self, condition, what, seconds=600):
        """Asks until it is so; `seconds` only ends a cluster that hangs."""
        end = time.monotonic() + seconds
        while True:
            try:
                if condition():
                    return
            except RuntimeError:
                pass  # the controller is not up yet
            if time.monotonic() > end:
                logs = "\n".join(f"{log.name}: {log.read_text()[-1500:]}" for log in self.folder.glob("*.log"))
                raise RuntimeError(f"waited {seconds} s for {what}\n{self.run('squeue', '--all', check=False)}\n{logs}")
            time.sleep(0.3)

    def fields(self, job, name):
        """Task -> a field of a job's elements, as scontrol still knows them."""
        found = {}
        for record in self.run("scontrol", "show", "job", job, "--oneliner").splitlines():
            fields = dict(word.split("=", 1) for word in record.split() if "=" in word)
            found[fields.get("ArrayTaskId", fields["JobId"])] = fields[name]
        return found

    def state(self, job):
        return self.fields(job, "JobState")

    def ended(self, job):
        return all(state not in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "REQUEUED")
                   for state in self.state(job).values())
