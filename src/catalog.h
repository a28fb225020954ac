/*
 * catalog.h
 *		The OIDs of the extension's relations in this database.
 */
#ifndef OUTBOX_CATALOG_H
#define OUTBOX_CATALOG_H

#include "postgres.h"

typedef struct OutboxCatalog
{
	Oid schema;
	Oid owner; /* of outbox.message */
	Oid message;
	Oid message_default;
	Oid message_seq;
	Oid leaf;
	Oid route;
	Oid instance;
	Oid start_request;
} OutboxCatalog;

extern void CatalogInit(void);

/* NULL, or with missing_ok false an error, where the extension is absent. */
extern const OutboxCatalog *CatalogGet(bool missing_ok);

/*
 * Rises whenever a relation's definition, or the whole cache, was
 * invalidated that concerns the tree of outbox.message or its registry.
 */
extern uint64 CatalogGeneration(void);

#endif
