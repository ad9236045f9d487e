/* Memory of a worker: threadgroup memory behind a guard page, and blocks for coroutine frames. */
#include "runtime.h"

#define MC_FIRST_BLOCK (1u << 20)

static mc_context* free_contexts;
static uint32_t free_lock;

static void lock(void) {
  while (__atomic_exchange_n(&free_lock, 1, __ATOMIC_ACQUIRE)) mc_pause();
}

static void unlock(void) { MC_STORE_REL(&free_lock, 0); }

static uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

mc_context* mc_context_acquire(void) {
  lock();
  mc_context* context = free_contexts;
  if (context) free_contexts = context->next;
  unlock();
  if (context) return context;
  context = mc_map(round_up(sizeof(mc_context), MC_PAGE)); /* zeroed */
  return context;
}

void mc_context_release(mc_context* context) {
  lock();
  context->next = free_contexts;
  free_contexts = context;
  unlock();
}

/* Group memory lies between two guard pages; 256 bytes behind it stay readable for wide loads. */
static int prepare_group_memory(mc_context* context, uint64_t bytes) {
  if (context->group_block && context->group_capacity >= bytes) return 1;
  uint64_t capacity = round_up(bytes + 256 > 65536 ? bytes + 256 : 65536, MC_PAGE);
  char* block = mc_map(capacity + 2 * MC_PAGE);
  if (!block) return 0;
  mprotect(block, MC_PAGE, 0);
  mprotect(block + MC_PAGE + capacity, MC_PAGE, 0);
  if (context->group_block) munmap(context->group_block, context->group_capacity + 256 + 2 * MC_PAGE);
  context->group_block = block;
  context->group_capacity = capacity - 256;
  return 1;
}

int mc_context_prepare(mc_context* context, mc_launch* launch) {
  if (!prepare_group_memory(context, launch->group_memory_size)) return 0;
  if (context->n_blocks == 0) {
    context->blocks[0] = mc_map(MC_FIRST_BLOCK);
    if (!context->blocks[0]) return 0;
    context->block_sizes[0] = MC_FIRST_BLOCK;
    context->n_blocks = 1;
  }
  context->worker.launch = launch;
  context->worker.group_memory = context->group_block + MC_PAGE;
  mc_reset_frames(context);
  return 1;
}

/* The next block that is large enough; blocks are kept, so a kernel that rewinds after each group allocates once. */
char* mc_grow_frames(mc_worker* worker, uint64_t bytes) {
  mc_context* context = (mc_context*)worker;
  bytes = round_up(bytes, MC_FRAME_ALIGN);
  uint32_t i = 0;
  while (i < context->n_blocks && context->blocks[i] + context->block_sizes[i] != worker->frame_end) i++;
  do i++;
  while (i < context->n_blocks && context->block_sizes[i] < bytes);
  if (i >= context->n_blocks) {
    i = context->n_blocks;
    uint64_t size = context->block_sizes[i - 1] * 2;
    if (size < bytes) size = round_up(bytes, MC_PAGE);
    char* block = i < MC_MAX_BLOCKS ? mc_map(size) : 0;
    if (!block) __builtin_trap(); /* no way to go on: the kernel has no other place for its state */
    context->blocks[i] = block;
    context->block_sizes[i] = size;
    context->n_blocks = i + 1;
  }
  worker->frame_cur = context->blocks[i] + bytes;
  worker->frame_end = context->blocks[i] + context->block_sizes[i];
  return context->blocks[i];
}

void mc_memory_after_fork(void) { free_lock = 0; }
