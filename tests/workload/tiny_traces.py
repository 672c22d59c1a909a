"""A file of a few rows in each published format of traces, by the name of the format: file name and content."""

from __future__ import annotations

TINY = {
    "philly": (
        "jobs.csv",
        (
            "job_id,submit_s,submit_time,duration_s,num_gpus,vc\n"
            "7,100,2017-10-01 00:01:40,60,4,aa\n"
            "8,90,2017-10-01 00:01:30,30.5,1,bb\n"
            "9,95,2017-10-01 00:01:35,30,0,bb\n"
        ),
    ),
    "tiresias": (
        "60_job.csv",
        "job_id,num_gpu,submit_time,iterations,model_name,duration,interval\n0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23\n",
    ),
    "elasticflow": (
        "ef.csv",
        (
            "job_id,submit_time,real_iteration,model_name,ddl,batch_size,num_gpu,real_duration,duration,iteration\n"
            "0,0,10,vgg16,771,256,1,100,100,10\n"
            "1,5,20,bert,2065,64,4,250,200,20\n"
        ),
    ),
    "itp": (
        "itp.csv",
        (
            "cluster,job,submit_s,duration_s,num_gpu,model_name,batch_size,num_iteration,deadline_s\n"
            "c1,0,10,100,64,resnet50,256,45775,120\n"
            "c2,0,11,90,1,gpt2,128,111,200\n"
        ),
    ),
    "chronus": (
        "mix2.csv",
        (
            "job_id,user,num_gpu,submit_time,iterations,model_name,duration,interval,expect_time_list,expect_value_list,"
            "best_effort,job_type\n"
            "0,vc_a,2,10,5530,mobilenet_v2,96,5,159-189-229,10-8-5,0,soft\n"
            "1,vc_b,1,2,760,alexnet,106,6,235,10,0,strict\n"
            "2,vc_b,1,3,760,alexnet,20,6,235,10,1,best\n"
            "3,vc_b,0,3,760,alexnet,20,6,235,10,0,strict\n"
        ),
    ),
    "pollux": (
        "workload-1.csv",
        "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\nncf-2,135.0,ncf,1,256\nnew-3,140,new,2,8\n",
    ),
    "helios": (
        "cluster_log.csv",
        (
            "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"
            "11,uA,vcX,8,8,1,COMPLETED,2020-06-09 18:41:01,2020-06-09 18:41:01,2020-06-10 04:55:09,36848,0\n"
            "12,uB,vcY,0,4,1,FAILED,2020-06-09 18:40:00,2020-06-09 18:41:27,2020-06-09 18:45:36,249,0\n"
            "13,uA,vcX,1,4,1,FAILED,2020-06-09 18:41:31,2020-06-09 18:41:31,2020-06-09 18:45:36,245,0\n"
        ),
    ),
    "lucid": (
        "cluster_full_log.csv",
        (
            "job_id,user,vc,jobname,gpu_num,cpu_num,state,submit_time,duration,dataset,model,batchsize,amp,speed,gpu_util,"
            "gmem_util,gmem\n"
            "1,u,v,n,2,8,COMPLETED,120.0,50,CIFAR-10,ResNet18,32,0,1.0,50,20,4000\n"
            "2,u,v,n,1,8,COMPLETED,150.0,60,SQuAD,BERT,32,0,1.0,50,20,4000\n"
        ),
    ),
    "acme": (
        "trace_seren.csv",
        (
            "job_id,user,node_num,gpu_num,cpu_num,type,state,submit_time,start_time,end_time,duration,queue,gpu_time\n"
            "a,u1,1,8,128,Pretrain,FAILED,2023-03-01 08:00:10+08:00,x,x,117,32,936.0\n"
            "b,u2,1,0,128,Other,FAILED,2023-03-01 00:00:10+00:00,x,x,117,32,0\n"
            "c,u2,1,2,128,Other,RUNNING,2023-03-01 00:00:10+00:00,x,x,,32,0\n"
            "d,u1,1,1,128,Other,COMPLETED,2023-03-01 00:00:00+00:00,x,x,5,32,0\n"
        ),
    ),
    "acme-converted": (
        "kalos.csv",
        (
            "job_id,arrival_time,num_iteration,iteration_computing_time,iteration_networking_time,gpu_workers,ps,"
            "gpu_per_worker,cpu_per_gpu_worker\n0,3.0,200,0.5,0.25,4,0,8.0,15.0\n"
        ),
    ),
    "pai": (
        "pai_job_duration_estimate_100K.csv",
        (
            "job_id,num_inst,submit_time,num_cpu,num_gpu,gpu_type,duration,user,group,group_gpu_dur\n"
            "1,1,10,6,0.5,T4,100,u1,g1,80.5\n"
            "2,2,5,6,2,V100,60,u2,g2,60\n"
            "3,2,5,6,0,V100,60,u2,g2,60\n"
        ),
    ),
    "pai-tasks": (
        "pai_task_table.csv",
        (
            "jobA,worker,2,Terminated,100.0,200.0,600,29,50,T4\n"
            "jobA,ps,1,Terminated,90.0,200.0,600,29,,\n"
            "jobA,chief,1,Terminated,110.0,260.0,600,29,200,T4\n"
            "jobB,worker,1,Running,300.0,,600,29,100,T4\n"
            "jobC,worker,1,Terminated,50.0,51.0,600,29,100,T4\n"
        ),
    ),
    "hydra": (
        "20_ddl.csv",
        ",job_name,norm_job_submit_time,ddl,A100,V100,GTX2080Ti\n0,x,0,inf,10,15,26\n1,y,0,99,5,8,11\n",
    ),
    "openb": (
        "openb_pod_list_default.csv",
        (
            "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
            "p0,12000,16384,1,460,,LS,Running,0,100,10\n"
            "p1,6000,12288,8,1000,V100M32|V100M16,BE,Pending,5,50,\n"
            "p2,6000,12288,0,0,,BE,Failed,7,50,8\n"
            "p3,1000,1024,2,1000,T4,BE,Failed,9,50,9\n"
        ),
    ),
    "gavel": (
        "physical.trace",
        (
            "ResNet-18 (batch size 128)\tpython3 main.py\tcifar10\t--num_steps\t1\t9000\t4\t1\t-1.000000\t0\n"
            "A3C\tpython3 main.py\trl\t--max-steps\t1\t600\t1\t1\t2.0\t30.5\n"
        ),
    ),
}
PHILLY_LOG = (
    '[{"jobid":"a","submitted_time":"2017-10-07 01:11:39","attempts":[{"start_time":"2017-10-07 01:12:00",'
    '"end_time":"2017-10-07 01:13:00","detail":[{"gpus":["g"]}]}]}]'
)
