/*
 * route.c
 *		The cached rows of outbox.route.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "commands/trigger.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/rel.h"

#include "catalog.h"
#include "outbox.h"
#include "route.h"
#include "table_cache.h"
#include "topic.h"

/* Columns of outbox.route. */
enum
{
	ROUTE_ID = 1,
	ROUTE_AGGREGATE_TYPE,
	ROUTE_EVENT_TYPE,
	ROUTE_TOPIC,
	ROUTE_DEAD_LETTER_POLICY,
	ROUTE_DEAD_LETTER_TOPIC,
	ROUTE_MAX_ATTEMPTS
};

/* What one reading of the table has found so far. */
typedef struct Loaded
{
	Route *routes;
	int n;
	int capacity;
} Loaded;

static void fill(void);
static void visit_row(TupleTableSlot *slot, void *arg);
static void check_row(TriggerData *trigger);

static TableCache cache;
static Route *routes = NULL;
static int nroutes = 0;

static const Route no_route = {.topic = OUTBOX_DEFAULT_TOPIC};

PG_FUNCTION_INFO_V1(outbox_route_changed);

const Route *
RouteFind(const char *aggregate_type, const char *event_type)
{
	const Route *best = &no_route;
	int best_rank = -1;

	/* Who holds all its locks already hears of no change by itself. */
	AcceptInvalidationMessages();
	if (!cache.valid)
		fill();
	for (int i = 0; i < nroutes; i++)
	{
		Route *r = &routes[i];
		int rank = 2 * (r->aggregate_type != NULL) + (r->event_type != NULL);

		if (rank > best_rank &&
			(r->aggregate_type == NULL ||
			 strcmp(r->aggregate_type, aggregate_type) == 0) &&
			(r->event_type == NULL || strcmp(r->event_type, event_type) == 0))
		{
			best = r;
			best_rank = rank;
		}
	}
	return best;
}

char *
RouteTopic(const char *aggregate_type, const char *event_type,
		   const char *given)
{
	const char *problem = NULL;
	int route_id = 0;
	char *topic;

	if (given != NULL)
		topic = pstrdup(given);
	else
	{
		const Route *route = RouteFind(aggregate_type, event_type);

		route_id = route->route_id;
		topic =
			TopicExpand(route->topic, aggregate_type, event_type, &problem);
		if (topic == NULL)
			ereport(
				ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg(
					 "the route of aggregate type \"%s\" has an invalid topic",
					 aggregate_type),
				 errdetail_internal("%s", problem),
				 errhint("Correct the row in outbox.route.")));
	}

	problem = TopicNameProblem(topic);
	if (problem != NULL)
		ereport(
			ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid topic name \"%s\"", topic),
			 errdetail_internal("%s", problem),
			 given != NULL ? errhint("Give another topic.")
			 : route_id != 0
				 ? errhint("Its template is that of route %d in outbox.route.",
						   route_id)
				 : errhint(
					   "Add a row to outbox.route for aggregate type \"%s\".",
					   aggregate_type)));
	return topic;
}

static void
fill(void)
{
	Loaded loaded = {0};

	TableCacheFill(&cache, CatalogGet(false)->route, visit_row, &loaded);
	routes = loaded.routes;
	nroutes = loaded.n;
}

static void
visit_row(TupleTableSlot *slot, void *arg)
{
	Loaded *loaded = arg;
	Route *r;
	bool isnull;
	Datum value;

	if (loaded->n == loaded->capacity)
	{
		loaded->capacity = loaded->capacity == 0 ? 8 : 2 * loaded->capacity;
		loaded->routes =
			loaded->routes == NULL
				? palloc(sizeof(Route) * loaded->capacity)
				: repalloc(loaded->routes, sizeof(Route) * loaded->capacity);
	}
	r = &loaded->routes[loaded->n++];
	r->route_id = DatumGetInt32(slot_getattr(slot, ROUTE_ID, &isnull));
	r->aggregate_type = SlotText(slot, ROUTE_AGGREGATE_TYPE);
	r->event_type = SlotText(slot, ROUTE_EVENT_TYPE);
	r->topic = SlotText(slot, ROUTE_TOPIC);
	r->dead_letter_policy = SlotText(slot, ROUTE_DEAD_LETTER_POLICY);
	r->dead_letter_topic = SlotText(slot, ROUTE_DEAD_LETTER_TOPIC);
	value = slot_getattr(slot, ROUTE_MAX_ATTEMPTS, &isnull);
	r->max_attempts = isnull ? 0 : DatumGetInt32(value);
}

/* Row trigger: checks the row.  Statement trigger: backends read again. */
Datum
outbox_route_changed(PG_FUNCTION_ARGS)
{
	TriggerData *trigger = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		RelationGetRelid(trigger->tg_relation) != CatalogGet(false)->route)
		ereport(
			ERROR,
			(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
			 errmsg(
				 "function \"%s\" was not called by a trigger of outbox.route",
				 "route_changed")));
	if (TRIGGER_FIRED_FOR_ROW(trigger->tg_event))
	{
		check_row(trigger);
		return PointerGetDatum(TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)
								   ? trigger->tg_newtuple
								   : trigger->tg_trigtuple);
	}
	CacheInvalidateRelcache(trigger->tg_relation);
	return PointerGetDatum(NULL);
}

/* The placeholders count as one letter each here; values are checked later. */
static void
check_row(TriggerData *trigger)
{
	HeapTuple tuple = TRIGGER_FIRED_BY_UPDATE(trigger->tg_event)
						  ? trigger->tg_newtuple
						  : trigger->tg_trigtuple;
	static const int attrs[] = {ROUTE_TOPIC, ROUTE_DEAD_LETTER_TOPIC};

	for (int i = 0; i < lengthof(attrs); i++)
	{
		bool isnull;
		const char *problem = NULL;
		char *template;
		char *topic;
		Datum value = heap_getattr(
			tuple, attrs[i], RelationGetDescr(trigger->tg_relation), &isnull);

		if (isnull)
			continue;
		template = TextDatumGetCString(value);
		topic = TopicExpand(template, "a", "e", &problem);
		if (topic != NULL)
			problem = TopicNameProblem(topic);
		if (problem != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid topic \"%s\" of a route", template),
					 errdetail_internal("%s", problem)));
	}
}
