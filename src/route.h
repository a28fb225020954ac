/*
 * route.h
 *		From aggregate and event type to topic and policy.
 */
#ifndef OUTBOX_ROUTE_H
#define OUTBOX_ROUTE_H

#include "postgres.h"

typedef struct Route
{
	int route_id;			  /* 0: no route matched */
	char *aggregate_type;	  /* NULL matches all */
	char *event_type;		  /* NULL matches all */
	char *topic;			  /* template */
	char *dead_letter_policy; /* NULL: the setting */
	char *dead_letter_topic;  /* NULL: the setting */
	int max_attempts;		  /* 0: the setting */
} Route;

/* The most specific route; never NULL.  Valid until the next call. */
extern const Route *RouteFind(const char *aggregate_type,
							  const char *event_type);

/*
 * The topic of a message, palloc'd: the one given, or the route's.  Raises
 * where Kafka would refuse its name.
 */
extern char *RouteTopic(const char *aggregate_type, const char *event_type,
						const char *given);

#endif
