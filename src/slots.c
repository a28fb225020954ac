/*
 * slots.c
 *		Worker slots, and which of the attached workers owns which lane.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/proc.h"

#include "shmem.h"

static bool ReleaseLanes(int slot, uint32 lanes);

/* --- worker slots --- */

int
ShmemReserveSlot(Oid database, int number, uint32 *generation)
{
	int found = -1;

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	for (int i = 0; i < Outbox->nslots && found < 0; i++)
	{
		WorkerSlot *slot = &Outbox->slots[i];

		if (slot->in_use)
			continue;
		found = i;
		slot->in_use = true;
		*generation = ++slot->generation;
		slot->database = database;
		slot->number = number;
		slot->pid = 0;
		slot->ended = false;
		slot->exit = WORKER_EXIT_NONE;
	}
	LWLockRelease(Outbox->lock);
	return found;
}

bool
ShmemFreeSlot(int slot, WorkerSlot *was)
{
	WorkerSlot *mine = &Outbox->slots[slot];

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	*was = *mine;
	if (was->pid == 0)
	{
		mine->generation++;
		mine->in_use = false;
	}
	LWLockRelease(Outbox->lock);
	return was->pid == 0;
}

bool
ShmemSlotInUse(Oid database)
{
	for (int i = 0; i < Outbox->nslots; i++)
	{
		if (Outbox->slots[i].in_use && Outbox->slots[i].database == database)
			return true;
	}
	return false;
}

bool
ShmemAttachWorker(int slot, uint32 generation)
{
	WorkerSlot *mine = &Outbox->slots[slot];
	bool ok;

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	ok = mine->in_use && mine->generation == generation;
	if (ok)
	{
		mine->proc_number = CompatMyProcNumber();
		mine->pid = MyProcPid;
	}
	LWLockRelease(Outbox->lock);

	if (ok)
		ShmemWakeWorkers(MyDatabaseId);
	return ok;
}

void
ShmemDetachWorker(int slot, uint32 generation, WorkerExit reason)
{
	WorkerSlot *mine = &Outbox->slots[slot];
	Oid left = InvalidOid;

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	if (mine->in_use && mine->generation == generation)
	{
		(void) ReleaseLanes(slot, OUTBOX_ALL_LANES);
		if (mine->pid != 0)
			left = mine->database;
		mine->pid = 0;
		mine->ended = true;
		mine->exit = reason;
	}
	LWLockRelease(Outbox->lock);

	if (OidIsValid(left))
		ShmemWakeWorkers(left);

	/* A launcher that did not start this worker hears of it only so. */
	ShmemWakeProc(pg_atomic_read_u32(&Outbox->launcher_proc));
}

void
ShmemWakeWorkers(Oid database)
{
	if (!ShmemReady())
		return;
	LWLockAcquire(Outbox->lock, LW_SHARED);
	for (int i = 0; i < Outbox->nslots; i++)
	{
		WorkerSlot *slot = &Outbox->slots[i];

		if (slot->in_use && slot->pid != 0 && slot->database == database)
			ShmemWakeProc(slot->proc_number + 1);
	}
	LWLockRelease(Outbox->lock);
}

/* --- lane ownership --- */

uint32
ShmemWantedLanes(int slot)
{
	WorkerSlot *mine = &Outbox->slots[slot];
	int attached = 0;
	int rank = 0;
	uint32 lanes = 0;

	LWLockAcquire(Outbox->lock, LW_SHARED);
	for (int i = 0; i < Outbox->nslots; i++)
	{
		WorkerSlot *other = &Outbox->slots[i];

		if (!other->in_use || other->pid == 0 ||
			other->database != mine->database)
			continue;
		attached++;
		if (other->number < mine->number ||
			(other->number == mine->number && i < slot))
			rank++;
	}
	if (mine->pid == 0)
		attached = 0;
	LWLockRelease(Outbox->lock);

	if (attached == 0)
		return 0;
	for (int lane = rank; lane < OUTBOX_LANES; lane += attached)
		lanes |= 1U << lane;
	return lanes;
}

uint32
ShmemTakeLanes(int slot, uint32 lanes)
{
	WorkerSlot *mine = &Outbox->slots[slot];
	DatabaseEntry *db;
	uint32 taken = 0;

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	db = mine->pid != 0 ? ShmemFindDatabase(mine->database) : NULL;
	for (int lane = 0; db != NULL && lane < OUTBOX_LANES; lane++)
	{
		if ((lanes & (1U << lane)) == 0 || db->owner[lane] != -1)
			continue;
		db->owner[lane] = slot;
		pg_atomic_write_u32(&db->owner_proc[lane], mine->proc_number + 1);
		taken |= 1U << lane;
	}

	/* After owner_proc: whoever finds the bit clear finds the new owner. */
	if (taken != 0)
		pg_atomic_fetch_or_u32(&db->dirty, taken);
	LWLockRelease(Outbox->lock);
	return taken;
}

void
ShmemReleaseLanes(int slot, uint32 lanes)
{
	Oid database;
	bool released;

	LWLockAcquire(Outbox->lock, LW_EXCLUSIVE);
	database = Outbox->slots[slot].database;
	released = ReleaseLanes(slot, lanes);
	LWLockRelease(Outbox->lock);

	if (released)
		ShmemWakeWorkers(database);
}

/* Needs the lock exclusively; true if a lane became free. */
static bool
ReleaseLanes(int slot, uint32 lanes)
{
	DatabaseEntry *db = ShmemFindDatabase(Outbox->slots[slot].database);
	bool released = false;

	for (int lane = 0; db != NULL && lane < OUTBOX_LANES; lane++)
	{
		if ((lanes & (1U << lane)) == 0 || db->owner[lane] != slot)
			continue;
		db->owner[lane] = -1;
		pg_atomic_write_u32(&db->owner_proc[lane], 0);
		released = true;
	}
	return released;
}
