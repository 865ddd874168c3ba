#include "kernels/cuda/device/launch_graph.h"

namespace banyan::cuda {
namespace {

cudaGraph_t Record(cudaStream_t stream, const std::function<void()>& body) {
  Check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "recording");
  cudaGraph_t graph = nullptr;
  try {
    body();
  } catch (...) {
    if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
    cudaGetLastError();
    throw;
  }
  Check(cudaStreamEndCapture(stream, &graph), "recording");
  return graph;
}

}  // namespace

LaunchGraph::LaunchGraph(const Device& device, const std::function<void()>& body)
    : stream_(device.stream) {
  const cudaGraph_t graph = Record(stream_, body);
  cudaError_t status = cudaGraphInstantiate(&ready_, graph, 0);
  cudaGraphDestroy(graph);
  Check(status, "graph");
  status = cudaGraphUpload(ready_, stream_);  // otherwise the first launch would do it
  if (status != cudaSuccess) cudaGraphExecDestroy(ready_);
  Check(status, "graph");
}

LaunchGraph::~LaunchGraph() {
  cudaStreamSynchronize(stream_);  // it may be on its way to the device
  cudaGraphExecDestroy(ready_);
}

double LaunchGraph::Seconds(int launches) {
  start_.Record(stream_);
  for (int i = 0; i < launches; ++i) Check(cudaGraphLaunch(ready_, stream_), "graph");
  end_.Record(stream_);
  return end_.SecondsSince(start_);
}

}  // namespace banyan::cuda
