/* Memory of a worker, each piece between guard pages: threadgroup memory, a stack, and blocks for coroutine frames. */
#include "runtime.h"

#define MC_FIRST_BLOCK (1u << 20)

static mc_context *free_contexts, *all_contexts;
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
  if (!context) return 0;
  context->all_next = MC_LOAD_ACQ(&all_contexts);
  while (!__atomic_compare_exchange_n(&all_contexts, &context->all_next, context, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return context;
}

/* Every context there ever was: none is given back to the system. */
mc_context* mc_all_contexts(void) { return MC_LOAD_ACQ(&all_contexts); }

void mc_context_release(mc_context* context) {
  lock();
  context->next = free_contexts;
  free_contexts = context;
  unlock();
}

/* Memory of at least `bytes` bytes between guard pages, in place of what the mapping held. 0 where there is none. */
static int map_guarded(mc_mapping* mapping, uint64_t bytes) {
  uint64_t size = round_up(bytes, MC_PAGE);
  char* block = mc_map(size + 2 * MC_PAGE);
  if (!block) return 0;
  if (mprotect(block, MC_PAGE, 0) || mprotect(block + MC_PAGE + size, MC_PAGE, 0)) {
    munmap(block, size + 2 * MC_PAGE);
    return 0;
  }
  if (mapping->start) munmap(mapping->start - MC_PAGE, mapping->size + 2 * MC_PAGE);
  mapping->start = block + MC_PAGE;
  mapping->size = size;
  return 1;
}

static int ensure(mc_mapping* mapping, uint64_t bytes) {
  return (mapping->start && mapping->size >= bytes) || map_guarded(mapping, bytes);
}

int mc_context_prepare(mc_context* context, mc_launch* launch) {
  if (!ensure(&context->group, (uint64_t)launch->group_memory_size + 256)) return 0; /* wide loads reach behind it */
  if (!ensure(&context->stack, launch->stack_size)) return 0;
  if (context->n_blocks == 0) {
    if (!map_guarded(&context->blocks[0], MC_FIRST_BLOCK)) return 0;
    context->n_blocks = 1;
  }
  context->worker.launch = launch;
  context->worker.group_memory = context->group.start;
  mc_reset_frames(context);
  return 1;
}

/* The next block that is large enough; blocks are kept, so a kernel that rewinds after each group allocates once.
 * Null where memory is short: the kernel then leaves the threadgroup out, and the launch says so. */
char* mc_grow_frames(mc_worker* worker, uint64_t bytes) {
  mc_context* context = (mc_context*)worker;
  bytes = round_up(bytes, MC_FRAME_ALIGN);
  uint32_t i = 0;
  while (i < context->n_blocks && context->blocks[i].start + context->blocks[i].size != worker->frame_end) i++;
  do i++;
  while (i < context->n_blocks && context->blocks[i].size < bytes);
  if (i >= context->n_blocks) {
    i = context->n_blocks;
    uint64_t size = context->blocks[i - 1].size * 2;
    if (i >= MC_MAX_BLOCKS || !map_guarded(&context->blocks[i], size < bytes ? bytes : size)) {
      MC_STORE_SEQ(&worker->launch->left_out, MC_NO_FRAMES);
      return 0;
    }
    context->n_blocks = i + 1;
  }
  worker->frame_cur = context->blocks[i].start + bytes;
  worker->frame_end = context->blocks[i].start + context->blocks[i].size;
  return context->blocks[i].start;
}

void mc_memory_after_fork(void) { free_lock = 0; }
