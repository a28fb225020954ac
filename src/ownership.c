/*
 * ownership.c
 *		Which lanes are this worker's.
 *
 * Ownership is an array in shared memory; outbox.lane only tells people. The
 * new owner of a lane reads the ledger after it has taken the lane, and the
 * old one has written there before it let go.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timestamp.h"

#include "delivery.h"
#include "lane_table.h"
#include "ledger.h"
#include "ownership.h"
#include "shmem.h"
#include "trouble.h"
#include "writeback.h"

#define DESCRIBE_INTERVAL_MS 1000

static void take(uint32 wanted);
static void hand_over(uint32 unwanted, TimestampTz now);
static void describe(uint32 described, uint32 freed);

static int my_slot;
static Lane *lanes;

static uint32 undescribed = 0; /* lanes whose rows are out of date */
static TimestampTz describe_at = 0;
static int described_attempts[OUTBOX_LANES];
static bool trouble_described = false;

void
OwnershipInit(int slot, Lane *worker_lanes)
{
	my_slot = slot;
	lanes = worker_lanes;
}

uint32
OwnershipLanes(void)
{
	uint32 owned = 0;

	for (int i = 0; i < OUTBOX_LANES; i++)
		owned |= lanes[i].owned ? 1U << i : 0;
	return owned;
}

void
OwnershipShare(bool running, TimestampTz now)
{
	static bool forgotten = false;
	uint32 owned = OwnershipLanes();
	uint32 wanted = running ? ShmemWantedLanes(my_slot) : 0;

	if (!forgotten)
	{
		LaneTableForgetDead();
		forgotten = true;
	}
	for (int i = 0; i < OUTBOX_LANES; i++)
		lanes[i].releasing = lanes[i].owned && !(wanted & (1U << i));
	if ((owned & ~wanted) != 0)
		hand_over(owned & ~wanted, now);
	if ((wanted & ~owned) != 0)
		take(wanted & ~owned);
}

static void
take(uint32 wanted)
{
	LaneProgress loaded[OUTBOX_LANES];
	uint32 taken = ShmemTakeLanes(my_slot, wanted);

	if (taken == 0)
		return;
	PG_TRY();
	{
		LedgerLoad(taken, loaded, CurrentMemoryContext);
	}
	PG_CATCH();
	{
		ShmemReleaseLanes(my_slot, taken);
		PG_RE_THROW();
	}
	PG_END_TRY();

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (taken & (1U << i))
			LaneTake(&lanes[i], &loaded[i]);
	}
	undescribed |= taken;
}

/*
 * A lane goes only when nothing of it is in flight and its record is written.
 * What may raise comes first: else a lane could be lost between two owners.
 */
static void
hand_over(uint32 unwanted, TimestampTz now)
{
	uint32 idle = 0;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if ((unwanted & (1U << i)) && lanes[i].in_flight == 0)
			idle |= 1U << i;
	}
	if (idle == 0)
		return;
	if (WritebackDue() != DT_NOEND)
		WritebackRun(now);
	describe(idle, idle);

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (idle & (1U << i))
			LaneDrop(&lanes[i]);
	}
	undescribed &= ~idle;
	ShmemReleaseLanes(my_slot, idle);
}

/* Which rows do not tell the truth any more? */
static void
note_changes(void)
{
	if (DeliveryTroubled() != trouble_described)
	{
		trouble_described = DeliveryTroubled();
		undescribed |= OwnershipLanes();
	}
	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		if (lanes[i].owned && lanes[i].attempts != described_attempts[i])
			undescribed |= 1U << i;
		described_attempts[i] = lanes[i].attempts;
	}
}

void
OwnershipDescribe(TimestampTz now)
{
	note_changes();
	if (undescribed == 0 || now < describe_at)
		return;
	describe_at = TimestampTzPlusMilliseconds(now, DESCRIBE_INTERVAL_MS);
	describe(undescribed, 0);
	undescribed = 0;
}

TimestampTz
OwnershipDescribeDue(void)
{
	return undescribed != 0 ? describe_at : DT_NOEND;
}

static void
describe(uint32 described, uint32 freed)
{
	LaneNotice notices[OUTBOX_LANES];
	int n = 0;

	for (int i = 0; i < OUTBOX_LANES; i++)
	{
		LaneNotice *notice = &notices[n];

		if (!(described & (1U << i)))
			continue;
		notice->lane = i;
		notice->owned = !(freed & (1U << i));
		notice->failing = lanes[i].attempts > 0 || trouble_described;
		notice->attempts = lanes[i].attempts;
		notice->next_attempt_at = lanes[i].retry_at;
		notice->last_error = notice->failing ? TroubleLast() : NULL;
		n++;
	}
	LaneTableWrite(notices, n);
}
