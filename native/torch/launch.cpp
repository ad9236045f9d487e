#include "launch.h"

namespace metalcore {
namespace {

using Wide = unsigned long long;

// Metal's own answer to a launch over its limits is to run nothing, or to end the process where it validates.
int refuse_size(const Launch& launch, const Error& error) {
  const Pipeline& pipeline = *launch.pipeline;
  const Size &groups = launch.groups, &group = launch.group_size;
  const uint64_t threads = group.x * group.y * group.z;
  if (!threads || threads > pipeline.most_threads)
    return error.say("kernel '%s': a threadgroup of %llu x %llu x %llu threads; this pipeline takes 1 to %llu: launch "
                     "smaller groups", pipeline.label, (Wide)group.x, (Wide)group.y, (Wide)group.z,
                     (Wide)pipeline.most_threads);
  const uint64_t each[] = {groups.x, groups.y, groups.z}, sizes[] = {group.x, group.y, group.z};
  for (int axis = 0; axis < 3; axis++)
    if (!each[axis] || each[axis] >= kMostGridThreads || each[axis] * sizes[axis] >= kMostGridThreads)
      return error.say("kernel '%s': %llu threadgroups of %llu threads on axis %d; there is 1 or more, and there are "
                       "fewer than 2^32 threads", pipeline.label, (Wide)each[axis], (Wide)sizes[axis], axis);
  return 0;
}

int refuse_range(const Launch& launch, Wide index, Object buffer, uint64_t offset, uint64_t length,
                 const Error& error) {
  if (!buffer) return error.say("kernel '%s': argument %llu has no buffer", launch.pipeline->label, index);
  const uint64_t held = send<uint64_t>(buffer, selectors.length);
  if (offset > held || length > held - offset)
    return error.say("kernel '%s': argument %llu needs %llu bytes from offset %llu on, and its buffer holds %llu",
                     launch.pipeline->label, index, (Wide)length, (Wide)offset, (Wide)held);
  return 0;
}

int refuse_argument(const Launch& launch, uint64_t index, const Error& error) {
  const Argument& argument = launch.arguments[index];
  const char* label = launch.pipeline->label;
  switch (argument.kind) {
    case kBuffer:
      return refuse_range(launch, index, reinterpret_cast<Object>(argument.value), argument.offset, argument.length,
                          error);
    case kBytes:
      if (!argument.length || argument.length > sizeof(argument.value))
        return error.say("kernel '%s': argument %llu is a number of %llu bytes; there are 1 to 8", label, (Wide)index,
                         (Wide)argument.length);
      return 0;
    case kAddresses: {
      if (!argument.length || argument.length * sizeof(uint64_t) > kMostBytes)
        return error.say("kernel '%s': argument %llu is a list of %llu arrays; Metal takes 1 to %llu in one launch",
                         label, (Wide)index, (Wide)argument.length, (Wide)(kMostBytes / sizeof(uint64_t)));
      const uint64_t* pairs = reinterpret_cast<const uint64_t*>(argument.value);
      for (uint64_t i = 0; i < argument.length; i++)
        if (refuse_range(launch, index, reinterpret_cast<Object>(pairs[2 * i]), pairs[2 * i + 1], 0, error)) return 1;
      return 0;
    }
    default:
      return error.say("kernel '%s': argument %llu is of the unknown kind %llu", label, (Wide)index,
                       (Wide)argument.kind);
  }
}

void encode_argument(Object encoder, const Argument& argument, uint64_t index) {
  if (argument.kind == kBuffer) {
    send<void>(encoder, selectors.set_buffer, reinterpret_cast<Object>(argument.value), argument.offset, index);
  } else if (argument.kind == kBytes) {
    send<void>(encoder, selectors.set_bytes, static_cast<const void*>(&argument.value), argument.length, index);
  } else {
    uint64_t addresses[kMostBytes / sizeof(uint64_t)];
    const uint64_t* pairs = reinterpret_cast<const uint64_t*>(argument.value);
    for (uint64_t i = 0; i < argument.length; i++) {
      Object buffer = reinterpret_cast<Object>(pairs[2 * i]);
      addresses[i] = send<uint64_t>(buffer, selectors.gpu_address) + pairs[2 * i + 1];
      send<void>(encoder, selectors.use_resource, buffer, uint64_t(3));  // MTLResourceUsageRead | Write
    }
    send<void>(encoder, selectors.set_bytes, static_cast<const void*>(addresses), argument.length * sizeof(uint64_t),
               index);
  }
}

struct Work {
  void* stream;
  const Launch* launches;
  uint64_t count;
  bool has_encoder;
};

void run(void* context) {
  Work& work = *static_cast<Work*>(context);
  for (uint64_t n = 0; n < work.count; n++) {
    const Launch& launch = work.launches[n];
    Object encoder = host.encoder(work.stream);  // torch's own, the same until something ends it
    if (!encoder) return;
    work.has_encoder = true;
    send<void>(encoder, selectors.set_pipeline, launch.pipeline->state);
    for (uint64_t i = 0; i < launch.argument_count; i++) encode_argument(encoder, launch.arguments[i], i);
    send<void>(encoder, selectors.dispatch, launch.groups, launch.group_size);
  }
}

}  // namespace

int encode(const Launch* launches, uint64_t count, const Error& error) {
  for (uint64_t n = 0; n < count; n++) {
    const Launch& launch = launches[n];
    if (refuse_size(launch, error)) return 1;
    if (launch.argument_count > kMostBuffers)
      return error.say("kernel '%s': %llu arguments; Metal takes %llu", launch.pipeline->label,
                       (Wide)launch.argument_count, (Wide)kMostBuffers);
    for (uint64_t i = 0; i < launch.argument_count; i++)
      if (refuse_argument(launch, i, error)) return 1;
  }
  if (!count) return 0;
  Pool pool;  // for what torch's encoder comes with
  Work work = {host.stream(), launches, count, false};
  host.sync(host.queue(work.stream), &work, run);
  return work.has_encoder ? 0 : error.say("torch's MPS stream gave no compute encoder");
}

}  // namespace metalcore
