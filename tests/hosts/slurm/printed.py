"""What `scontrol` of Slurm 22.05 prints of a job and of nodes."""

JOB = """\
JobId=41 JobName=my run NodeList=evil.example
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   JobState=RUNNING Reason=None Dependency=(null)
   Requeue=1 Restarts=2 BatchFlag=1 Reboot=0 ExitCode=0:0
   RunTime=00:00:00 TimeLimit=00:30:00 TimeMin=N/A
   StartTime=2026-11-26T13:56:50 EndTime=2026-11-26T14:26:50 Deadline=N/A
   ReqNodeList=(null) ExcNodeList=(null)
   NodeList=node[001-003]
   NumNodes=3 NumCPUs=6 NumTasks=6 CPUs/Task=1 ReqB:S:C:T=0:0:*:*
   JOB_GRES=gpu:h100:9
     Nodes=node[001-002] CPU_IDs=6-7 Mem=4000 GRES=gpu:h100:4(IDX:0-3)
     Nodes=node003 CPU_IDs=6 Mem=4000 GRES=gpu:h100:1(IDX:5)
   Command=/home/ann/job.sh
   WorkDir=/home/ann
   StdErr=/home/ann/err-[41].log
   StdIn=/dev/null
   StdOut=/home/ann/out my NodeList=evil.example.log
   TresPerNode=gres:gpu:h100:4
"""
NODES = (
    "NodeName=node001 Arch=x86_64 State=MIXED ThreadsPerCore=1\n"
    "NodeName=node002 Arch=x86_64 State=MIXED+DRAIN Tmp=0 Reason=bad nic | x [root@2026-11-26T13:56:50]\n"
    "NodeName=node003 Arch=x86_64 State=IDLE\n"
)
