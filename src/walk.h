/*
 * walk.h
 *		Walking a difference of one lane in the order of seq, however large.
 *
 * The index knows a lane's messages by xid; they have to leave by seq.  A
 * difference that is small is collected and sorted.  A large one is gone
 * through twice, by the index alone: the first pass keeps the smallest seq of
 * each block of entries, the second streams, sending what is smaller than all
 * that is still to come.  Where too much has to be held back for that (one
 * very long transaction with late seqs), the smallest entries are collected
 * pass by pass.
 */
#ifndef OUTBOX_WALK_H
#define OUTBOX_WALK_H

#include "postgres.h"

#include "log.h"

typedef struct Walk Walk;

/*
 * Within an open read.  What `target` sees and `then` does not, with seq above
 * after_seq; NULL where there is nothing.  The snapshots must outlive the
 * walk.
 */
extern Walk *WalkBegin(MemoryContext parent, int lane, const Progress *then,
					   const Progress *target, int64 after_seq);

/* Can it go on in the open read?  Else it has to begin anew. */
extern bool WalkIsCurrent(const Walk *walk);

/*
 * Within an open read, of a walk that is current.  The next entries by seq,
 * valid until the next call; *last tells that none follow.  NULL at the end.
 */
extern LogEntry *WalkNext(Walk *walk, int *n, bool *last);
extern void WalkEnd(Walk *walk);

/* Too large to be collected at once. */
extern bool WalkIsLarge(const Walk *walk);

#endif
