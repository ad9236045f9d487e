#include "copies.h"

namespace metalcore {
namespace {

using Wide = unsigned long long;

int refuse(const Copy& copy, uint64_t n, const Error& error) {
  if (!copy.source || !copy.target) return error.say("copy %llu has no buffer", (Wide)n);
  if ((copy.source_offset | copy.target_offset | copy.size) % 4 || !copy.size)
    return error.say("copy %llu of %llu bytes from offset %llu to %llu: macOS copies multiples of 4", (Wide)n,
                     (Wide)copy.size, (Wide)copy.source_offset, (Wide)copy.target_offset);
  const uint64_t held[] = {send<uint64_t>(copy.source, selectors.length), send<uint64_t>(copy.target, selectors.length)};
  const uint64_t offsets[] = {copy.source_offset, copy.target_offset};
  for (int i = 0; i < 2; i++)
    if (offsets[i] > held[i] || copy.size > held[i] - offsets[i])
      return error.say("copy %llu needs %llu bytes from offset %llu on of its %s, which holds %llu", (Wide)n,
                       (Wide)copy.size, (Wide)offsets[i], i ? "target" : "source", (Wide)held[i]);
  const bool is_apart = copy.source_offset + copy.size <= copy.target_offset ||
                        copy.target_offset + copy.size <= copy.source_offset;
  if (copy.source == copy.target && !is_apart)
    return error.say("copy %llu of %llu bytes from offset %llu to %llu of one buffer overlaps itself", (Wide)n,
                     (Wide)copy.size, (Wide)copy.source_offset, (Wide)copy.target_offset);
  return 0;
}

struct Work {
  void* stream;
  const Copy* copies;
  uint64_t count;
  bool has_encoder;
};

void run(void* context) {
  Work& work = *static_cast<Work*>(context);
  host.end_coalescing(work.stream);
  Object buffer = host.command_buffer(work.stream);
  Object encoder = buffer ? send<Object>(buffer, selectors.blit_encoder) : nullptr;
  if (!encoder) return;
  work.has_encoder = true;
  for (uint64_t n = 0; n < work.count; n++) {
    const Copy& copy = work.copies[n];
    send<void>(encoder, selectors.copy, copy.source, copy.source_offset, copy.target, copy.target_offset, copy.size);
  }
  send<void>(encoder, selectors.end_encoding);
}

}  // namespace

int copy(const Copy* copies, uint64_t count, const Error& error) {
  for (uint64_t n = 0; n < count; n++)
    if (refuse(copies[n], n, error)) return 1;
  if (!count) return 0;
  Pool pool;  // blitCommandEncoder hands it out autoreleased
  Work work = {host.stream(), copies, count, false};
  host.sync(host.queue(work.stream), &work, run);
  return work.has_encoder ? 0 : error.say("torch's MPS stream gave no command buffer for a copy");
}

}  // namespace metalcore
