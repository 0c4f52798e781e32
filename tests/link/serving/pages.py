"""Pages of metrics in the form of each engine: names, labels and units as their documentation prints them.

SGLang: the page of docs/references/production_metrics.md, shortened. vLLM 0.11: the names of
docs/design/metrics.md with the labels of its usage page. TGI 3: the table of its reference/metrics;
Triton 24.04: docs/user_guide/metrics.md.
"""

from __future__ import annotations

from collections.abc import Mapping

VLLM = """# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="0",model_name="Llama-3.2-1B"}} {running}
vllm:num_requests_waiting{{engine="0",model_name="Llama-3.2-1B"}} {waiting}
vllm:kv_cache_usage_perc{{engine="0",model_name="Llama-3.2-1B"}} 0.875
vllm:generation_tokens_total{{engine="0",model_name="Llama-3.2-1B"}} {tokens}
vllm:request_success_total{{engine="0",finished_reason="stop",model_name="Llama-3.2-1B"}} {stop}
vllm:request_success_total{{engine="0",finished_reason="length",model_name="Llama-3.2-1B"}} 0.0
vllm:request_success_total{{engine="0",finished_reason="error",model_name="Llama-3.2-1B"}} {error}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="1.0",model_name="Llama-3.2-1B"}} {fast}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="2.0",model_name="Llama-3.2-1B"}} {all}
vllm:e2e_request_latency_seconds_bucket{{engine="0",le="+Inf",model_name="Llama-3.2-1B"}} {all}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="0.5",model_name="Llama-3.2-1B"}} {all}
vllm:time_to_first_token_seconds_bucket{{engine="0",le="+Inf",model_name="Llama-3.2-1B"}} {all}
"""
SGLANG = """# HELP sglang:token_usage The token usage
# TYPE sglang:token_usage gauge
sglang:token_usage{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.28
sglang:cache_hit_rate{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.007507552643049313
sglang:time_to_first_token_seconds_bucket{le="2.5",model_name="meta-llama/Llama-3.1-8B-Instruct"} 140.0
sglang:time_to_first_token_seconds_bucket{le="30.0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 2513.0
sglang:time_to_first_token_seconds_bucket{le="+Inf",model_name="meta-llama/Llama-3.1-8B-Instruct"} 11008.0
sglang:e2e_request_latency_seconds_bucket{le="50.0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 845.0
sglang:e2e_request_latency_seconds_bucket{le="60.0",model_name="meta-llama/Llama-3.1-8B-Instruct"} 1513.0
sglang:e2e_request_latency_seconds_bucket{le="+Inf",model_name="meta-llama/Llama-3.1-8B-Instruct"} 11228.0
sglang:e2e_request_latency_seconds_count{model_name="meta-llama/Llama-3.1-8B-Instruct"} 11228.0
sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 162.0
sglang:gen_throughput{model_name="meta-llama/Llama-3.1-8B-Instruct"} 86.50814177726902
sglang:num_queue_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 2826.0
"""
TGI = """# TYPE tgi_queue_size gauge
tgi_queue_size 12
tgi_batch_current_size 4
tgi_request_count{method="generate"} 400
tgi_request_failure{err="overloaded"} 8
tgi_request_duration_bucket{le="0.5"} 100
tgi_request_duration_bucket{le="1.0"} 350
tgi_request_duration_bucket{le="+Inf"} 400
tgi_request_duration_sum 320.5
tgi_request_duration_count 400
"""
TRITON = """# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="resnet50",version="1"} 8192
nv_inference_request_success{model="bert-large",version="2"} 3401
nv_inference_request_failure{model="resnet50",reason="OTHER",version="1"} 12
nv_inference_request_failure{model="resnet50",reason="CANCELED",version="1"} 100
nv_inference_pending_request_count{model="resnet50",version="1"} 7
nv_inference_request_summary_us{model="resnet50",version="1",quantile="0.5"} 1500
nv_inference_request_summary_us{model="resnet50",version="1",quantile="0.95"} 4000
nv_inference_request_summary_us{model="bert-large",version="2",quantile="0.95"} 9000
"""


def vllm(**values: float) -> str:
    """A page of vLLM; what is not given is 0."""
    names = ("running", "waiting", "tokens", "stop", "error", "fast", "all")
    given: Mapping[str, float] = {**dict.fromkeys(names, 0.0), **values}
    return VLLM.format(**given)
